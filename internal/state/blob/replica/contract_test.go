package replica

import (
	"bytes"
	"encoding/binary"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lazuli-storage/lazuli/internal/cluster/mirror"
	"github.com/lazuli-storage/lazuli/internal/state/blob/encryption"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/storage/extent"
	"github.com/lazuli-storage/lazuli/internal/storage/replog"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/natscluster"
)

// putMeta puts a record of the meta bucket.
func putMeta(t *testing.T, s *Node, key, value []byte) {
	t.Helper()
	check.OK(t, s.DB.Update(func(tx *store.Tx) error { tx.Put(record.MetaBucket, key, value); return nil }))
}

// meta returns a record of the meta bucket.
func meta(t *testing.T, db *store.DB, key []byte) (value []byte) {
	t.Helper()
	check.OK(t, db.View(func(tx *store.Tx) error {
		value = bytes.Clone(tx.Get(record.MetaBucket, key))
		return nil
	}))
	return value
}

// A session whose record is damaged is not begun again from nothing, and ends the changes of its process.
func TestADamagedSession(t *testing.T) {
	t.Parallel()
	c := natscluster.Start(t, 1)
	dir := t.TempDir()
	a, b := openStreamed(t, c, dir), openStreamed(t, c, t.TempDir())
	key := sessionKey(a.owner.number.Load())
	putMeta(t, b, key, []byte("abc"))
	if err := create(a, "one"); err == nil || !strings.Contains(err.Error(), "has 3 bytes") {
		t.Errorf("a change in a session that is damaged: %v", err)
	}
	if r, _ := a.Replication(); !errors.Is(r.Err, errRetired) {
		t.Errorf("its state: %v", r.Err)
	}
	check.OK(t, a.Close())
	if s, err := tryStreamed(t, c, dir, time.Hour, Follower{}); err == nil {
		t.Error("the session was begun again")
		_ = s.Close()
	}
	if got := meta(t, b.DB, key); string(got) != "abc" {
		t.Errorf("the record is %q now", got)
	}
}

// A folder whose name can neither be read nor written is not opened: its next start would take another number.
func TestAFolderWithoutAName(t *testing.T) {
	t.Parallel()
	c, dir := natscluster.Start(t, 1), t.TempDir()
	check.OK(t, os.MkdirAll(filepath.Join(dir, "extents", folderFile), 0o700))
	if s, err := tryStreamed(t, c, dir, time.Hour, Follower{}); err == nil {
		t.Error("opened")
		_ = s.Close()
	}
	s := openStreamed(t, c, t.TempDir())
	if n, err := s.numberFolder(filepath.Join(dir, "none", folderFile)); err == nil {
		t.Errorf("the folder has number %d", n)
	}
}

// Numbers end with the largest one that an id of an extent can have.
func TestTooManyNodes(t *testing.T) {
	t.Parallel()
	s := openStreamed(t, natscluster.Start(t, 1), t.TempDir())
	last := func(n uint64) {
		putMeta(t, s, append(bytes.Clone(nodePrefix), "last"...), binary.BigEndian.AppendUint64(nil, n))
	}
	last(extent.MaxOwner - 1)
	s.cluster.Node = "one more"
	if n, err := s.numberNode(); n != extent.MaxOwner || err != nil {
		t.Errorf("number %d, %v", n, err)
	}
	s.cluster.Node = "one too many"
	if n, err := s.numberNode(); err == nil {
		t.Errorf("number %d", n)
	}
}

// A server that was itself retired retires no other.
func TestARetiredServerRetiresNone(t *testing.T) {
	t.Parallel()
	c := natscluster.Start(t, 1)
	a, b := openStreamed(t, c, t.TempDir()), openStreamed(t, c, t.TempDir())
	gone := b.owner.number.Load() + 1
	putMeta(t, a, append(bytes.Clone(nodePrefix), "gone"...), binary.BigEndian.AppendUint64(nil, gone))
	putMeta(t, a, retiredKey(b.owner.number.Load()), []byte{1})
	check.Eventually(t, func() bool { return b.mirror.(*tended).tend(t.Context()) != nil }, "it did its work")
	if err := b.mirror.(*tended).tend(t.Context()); !errors.Is(err, errRetired) {
		t.Errorf("%v, want errRetired", err)
	}
	if meta(t, a.DB, retiredKey(gone)) != nil {
		t.Error("another server was retired")
	}
}

// A server looks after the streams by itself.
func TestStreamsAreTended(t *testing.T) {
	t.Parallel()
	c := natscluster.Start(t, 1)
	s := check.Must(tryStreamed(t, c, t.TempDir(), 10*time.Millisecond, Follower{}))(t)
	defer func() { check.OK(t, s.Close()) }()
	gone := s.owner.number.Load() + 1
	putMeta(t, s, append(bytes.Clone(nodePrefix), "gone"...), binary.BigEndian.AppendUint64(nil, gone))
	check.Eventually(t, func() bool { return meta(t, s.DB, retiredKey(gone)) != nil }, "the server was not retired")
}

// A node learns of what others change that it has in memory.
func TestChangesOfOtherNodes(t *testing.T) {
	t.Parallel()
	c := natscluster.Start(t, 1)
	var properties, account atomic.Value
	a := openStreamed(t, c, t.TempDir())
	b := check.Must(tryStreamed(t, c, t.TempDir(), time.Hour, Follower{
		Properties: func(name string, value []byte) { properties.Store(name + "=" + string(value)) },
		Account:    func(name string, value []byte) { account.Store(name + "=" + string(value)) },
	}))(t)
	defer func() { check.OK(t, b.Close()) }()
	check.OK(t, a.DB.Update(func(tx *store.Tx) error {
		tx.Put(record.AccountsBucket, []byte("shop"), []byte("p"))
		tx.Put(record.MetaBucket, record.AccountKey("shop"), []byte("q"))
		return nil
	}))
	check.OK(t, current(b))
	if p, q := properties.Load(), account.Load(); p != "shop=p" || q != "shop=q" {
		t.Errorf("properties %v, account %v", p, q)
	}
	for _, bucket := range []store.Bucket{record.BlobsBucket, record.BlocksBucket, record.ContentBucket} {
		b.Freed.Store(0)
		check.OK(t, a.DB.Update(func(tx *store.Tx) error { tx.Delete(bucket, []byte("gone")); return nil }))
		if check.OK(t, current(b)); b.Freed.Load() == 0 {
			t.Errorf("a record of %s was removed, and its content is not looked for", bucket)
		}
	}
}

// Nodes have the keys of encryption scopes in common; one whose database has a key of another length does not start.
func TestNodesAgreeOnScopes(t *testing.T) {
	t.Parallel()
	c := natscluster.Start(t, 1)
	dir := t.TempDir()
	a, b := openStreamed(t, c, dir), openStreamed(t, c, t.TempDir())
	check.OK(t, a.scopes.Declare("shop"))
	check.OK(t, b.scopes.Declare("shop"))
	n := 0
	check.OK(t, b.DB.View(func(tx *store.Tx) error {
		cur := tx.Cursor(record.MetaBucket)
		for k, _ := cur.Seek(scopeKeyPrefix); bytes.HasPrefix(k, scopeKeyPrefix); k, _ = cur.Next() {
			n++
		}
		return nil
	}))
	if n == 0 {
		t.Error("the cluster has no key")
	}
	check.OK(t, a.Close())
	bad := append(bytes.Clone(scopeKeyPrefix), "shop/bad"...)
	putMeta(t, b, bad, []byte("short"))
	if s, err := tryStreamed(t, c, dir, time.Hour, Follower{}); err == nil {
		t.Error("opened with a key of another length")
		_ = s.Close()
	}
}

// The folder of a single server has number 0 in the cluster that is made of it, and has no folder that it had before.
// A log is made once.
func TestSeedNumbersTheFolder(t *testing.T) {
	t.Parallel()
	c, dir := natscluster.Start(t, 1), t.TempDir()
	path := filepath.Join(dir, "blobs.db")
	config := replog.Config{Conn: c.Conn(t, 0), Name: "blobs", Timeout: time.Minute, Log: slog.New(slog.DiscardHandler)}
	key := func(name string) []byte { return append(bytes.Clone(nodePrefix), name...) }
	db := check.Must(store.Open(path, store.Options{Buckets: record.Buckets()}))(t)
	check.OK(t, db.Update(func(tx *store.Tx) error {
		tx.Put(record.MetaBucket, key("former"), make([]byte, 8))
		tx.Put(record.MetaBucket, key("other"), binary.BigEndian.AppendUint64(nil, 5))
		return nil
	}))
	check.OK(t, db.Close())
	check.OK(t, Seed(t.Context(), path, filepath.Join(dir, "no keys"), "node", config))
	db = check.Must(store.Open(path, store.Options{Buckets: record.Buckets(), ReadOnly: true}))(t)
	for name, want := range map[string][]byte{"node": make([]byte, 8), "former": nil,
		"other": binary.BigEndian.AppendUint64(nil, 5)} {
		if got := meta(t, db, key(name)); !bytes.Equal(got, want) {
			t.Errorf("the number of %s is %x, want %x", name, got, want)
		}
	}
	check.OK(t, db.Close())
	if err := Seed(t.Context(), path, filepath.Join(dir, "no keys"), "node", config); err == nil {
		t.Error("the log was made twice")
	}
}

// A node with a mirror reads the content that another one has written.
func TestContentOfAnotherNode(t *testing.T) {
	t.Parallel()
	c := natscluster.Start(t, 1)
	var nodes []*Node
	for _, name := range []string{"a", "b"} {
		log := check.Must(replog.Open(t.Context(),
			replog.Config{Conn: c.Conn(t, 0), Name: "blobs", Timeout: time.Minute, Log: slog.New(slog.DiscardHandler)}))(t)
		scopes := check.Must(encryption.OpenScopes("", func(string) []string { return nil }))(t)
		dir := t.TempDir()
		s := check.Must(Open(Config{Path: filepath.Join(dir, "blobs.db"), Extents: filepath.Join(dir, "extents"),
			Scopes: scopes, Cluster: &Cluster{Log: log, Node: name, Mirror: mirror.Config{
				Connect: func() (*nats.Conn, error) { return nats.Connect(c.URL()) },
				Node:    name, Nodes: []string{"a", "b"}, Log: slog.New(slog.DiscardHandler)}}}))(t)
		t.Cleanup(func() { check.OK(t, s.Close()) })
		nodes = append(nodes, s)
	}
	want := bytes.Repeat([]byte("content"), 10_000)
	w := nodes[0].Extents.NewWriter(int64(len(want)))
	defer w.Close()
	check.Must(w.Write(want))(t)
	list := check.Must(w.Commit())(t)
	r := check.Must(nodes[1].Extents.NewReader(list, 0, int64(len(want))))(t)
	defer r.Close()
	var got bytes.Buffer
	if _, err := r.WriteTo(&got); err != nil || !bytes.Equal(got.Bytes(), want) {
		t.Errorf("%d bytes, %v", got.Len(), err)
	}
}
