package replica

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/state/blob/encryption"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/storage/extent"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/tier"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/natscluster"
)

// The folders of a node that was to join, and whose move has ended, are retired: by its cancellation, and by a later
// move.
func TestANodeThatDidNotJoinIsRetired(t *testing.T) {
	t.Parallel()
	s := openStreamed(t, natscluster.Start(t, 1), t.TempDir())
	numbers := map[string]uint64{"d": 71, "e": 72, "f": 73}
	for name, n := range numbers {
		putMeta(t, s, append(bytes.Clone(nodePrefix), name+".1"...), binary.BigEndian.AppendUint64(nil, n))
	}
	retired := func() (names string) {
		for _, name := range []string{"d", "e", "f"} {
			if meta(t, s.DB, retiredKey(numbers[name])) != nil {
				names += name
			}
		}
		return names
	}
	nodes := []string{"a", "b", "c"}
	for _, step := range []struct {
		name             string
		do               func() error
		joining, retired string
	}{
		{"d joins", func() error { return s.Join(1, nodes, "a", "d") }, "d", ""},
		{"e joins", func() error { return s.Join(2, nodes, "a", "e") }, "e", "d"},
		{"that is cancelled", func() error { return s.Cancel(2, nodes) }, "", "de"},
		{"a move that has not begun is cancelled", func() error { return s.Cancel(3, nodes) }, "", "de"},
	} {
		check.OK(t, step.do())
		if h := check.Must(s.Hosts())(t); h.Joining != step.joining || retired() != step.retired {
			t.Errorf("%s: %q joins, and %q are retired; want %q and %q", step.name, h.Joining, retired(), step.joining,
				step.retired)
		}
	}
}

// Nodes use the place in the tier that the first of them has proposed.
func TestTheFirstPlaceInATierCounts(t *testing.T) {
	t.Parallel()
	c := natscluster.Start(t, 1)
	for i, s := range []*Node{openStreamed(t, c, t.TempDir()), openStreamed(t, c, t.TempDir())} {
		x := nodeExtents{s.Extents, s, 0}
		folder, key, err := x.Agree([]string{"one", "two"}[i], []string{"k1", "k2"}[i])
		if err != nil || folder != "one" || key != "k1" || x.FolderID() != "one" {
			t.Errorf("node %d: %q, %q, %v; want those of the first", i, folder, key, err)
		}
	}
}

// A server whose tier cannot be used does not start.
func TestATierThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	dir := check.MemoryDir(t)
	scopes := check.Must(encryption.OpenScopes("", func(string) []string { return nil }))(t)
	s, err := Open(Config{Path: filepath.Join(dir, "blobs.db"), Extents: filepath.Join(dir, "extents"), Scopes: scopes,
		Tier: &tier.Options{Dir: filepath.Join(dir, "tier"), Cache: 1, Least: 1 << 20}})
	if err == nil || s != nil {
		t.Errorf("%v, %v; want an error", s, err)
	}
	// Nothing is left open: the file is not locked.
	db := check.Must(store.Open(filepath.Join(dir, "blobs.db"), store.Options{Buckets: record.Buckets()}))(t)
	check.OK(t, db.Close())
}

// A folder has a name that begins with the first part of the machine's name, and no one that has no place in the
// database.
func TestNamesOfFolders(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]string{"pc": "pc.", "pc.example.org": "pc.", "": "server.",
		strings.Repeat("x", 63): strings.Repeat("x", 63) + ".", strings.Repeat("x", 64): "server.", "\xff": "server."} {
		name := string(newFolderName(host))
		if id, ok := strings.CutPrefix(name, want); !ok || len(id) != 36 || len(name) > maxFolderName ||
			name == string(newFolderName(host)) {
			t.Errorf("of %q: %q, want %s and an id", host, name, want)
		}
	}
}

// A node that does not know the members of its cluster takes no other one for gone.
func TestNodesThatAreGone(t *testing.T) {
	t.Parallel()
	s := openStreamed(t, natscluster.Start(t, 1), t.TempDir())
	s.nodes.learn("other", binary.BigEndian.AppendUint64(nil, 9))
	for _, c := range []struct {
		members []string
		want    bool
	}{{nil, false}, {[]string{"other"}, false}, {[]string{"this"}, true}} {
		s.cluster.Members = func() []string { return c.members }
		if got := s.nodeGone(9); got != c.want || s.nodeGone(10) {
			t.Errorf("with the members %q: gone %v, want %v; and one without a name: %v", c.members, got, c.want,
				s.nodeGone(10))
		}
	}
	s.cluster.Members = nil
	if s.nodeGone(9) {
		t.Error("gone without a list of members")
	}
}

// ScopeKeys returns the keys of a database, and those of a damaged one as no others.
func TestScopeKeys(t *testing.T) {
	t.Parallel()
	path := filepath.Join(check.MemoryDir(t), "blobs.db")
	db := check.Must(store.Open(path, store.Options{Buckets: record.Buckets()}))(t)
	check.OK(t, db.Update(func(tx *store.Tx) error {
		tx.Put(record.MetaBucket, append(bytes.Clone(scopeKeyPrefix), "shop/one"...), []byte("the key of the scope"))
		tx.Put(record.MetaBucket, []byte("other"), []byte("x"))
		return nil
	}))
	check.OK(t, db.Close())
	if keys := check.Must(ScopeKeys(path))(t); len(keys) != 1 || string(keys["shop/one"]) != "the key of the scope" {
		t.Errorf("the keys are %q", keys)
	}
	file := check.Must(os.ReadFile(path))(t)
	check.OK(t, os.WriteFile(path, bytes.ReplaceAll(file, []byte("the key of"), []byte("the kez of")), 0o600))
	if keys, err := ScopeKeys(path); !errors.Is(err, store.ErrDamaged) {
		t.Errorf("%q, %v; want ErrDamaged", keys, err)
	}
}

// Recover brings what only the log of a killed service has to its place, so that the files need no log.
func TestRecover(t *testing.T) {
	t.Parallel()
	dir, killed := check.MemoryDir(t), check.MemoryDir(t)
	scopes := check.Must(encryption.OpenScopes("", func(string) []string { return nil }))(t)
	s := check.Must(Open(Config{Path: filepath.Join(dir, "blobs.db"), Extents: filepath.Join(dir, "extents"),
		Scopes: scopes}))(t)
	defer s.Close()
	w := s.Extents.NewWriter(-1)
	defer w.Close()
	check.Must(w.Write([]byte("content")))(t)
	list, logged, ok, err := w.CommitLogged()
	if check.OK(t, err); !ok {
		t.Fatal("the content is durable already")
	}
	check.OK(t, s.DB.Update(func(tx *store.Tx) error {
		tx.Put(record.MetaBucket, []byte("k"), []byte("v"))
		tx.Attach(logged.Key, logged.Value)
		return nil
	}))
	check.OK(t, os.CopyFS(killed, os.DirFS(dir)))
	path, extents := filepath.Join(killed, "blobs.db"), filepath.Join(killed, "extents")
	check.OK(t, Recover(path, extents))
	if state := check.Must(store.ReadState(path))(t); !state.Closed {
		t.Error("the file needs its log")
	}
	db := check.Must(store.Open(path, store.Options{Buckets: record.Buckets(), ReadOnly: true}))(t)
	if got := meta(t, db, []byte("k")); string(got) != "v" {
		t.Errorf("the record is %q", got)
	}
	check.OK(t, db.Close())
	content := check.Must(extent.Open(extents, extent.Options{ReadOnly: true}))(t)
	defer content.Close()
	r := check.Must(content.NewReader(list, 0, list[0].Length))(t)
	defer r.Close()
	var got bytes.Buffer
	if _, err := r.WriteTo(&got); err != nil || got.String() != "content" {
		t.Errorf("the content is %q, %v", &got, err)
	}
	check.OK(t, os.WriteFile(path, bytes.Repeat([]byte("text "), 10_000), 0o600))
	if err := Recover(path, extents); err == nil {
		t.Error("a file that is no database was recovered")
	}
}

// A node learns that another one has changed a subscription, and is not told of the progress of one.
func TestSubscriptionsOfOtherNodes(t *testing.T) {
	t.Parallel()
	c := natscluster.Start(t, 1)
	var told atomic.Int64
	a := openStreamed(t, c, t.TempDir())
	b := check.Must(tryStreamed(t, c, t.TempDir(), time.Hour, Follower{Subscribed: func() { told.Add(1) }}))(t)
	defer func() { check.OK(t, b.Close()) }()
	for _, step := range []struct {
		key  string
		want int64
	}{{"cshop\x00hook\x00", 1}, {"pshop\x00hook\x00", 1}} {
		check.OK(t, a.DB.Update(func(tx *store.Tx) error {
			tx.Put(record.SubscriptionsBucket, []byte(step.key), []byte("x"))
			return nil
		}))
		if check.OK(t, current(b)); told.Load() != step.want {
			t.Errorf("after %q it was told %d times, want %d", step.key, told.Load(), step.want)
		}
	}
}
