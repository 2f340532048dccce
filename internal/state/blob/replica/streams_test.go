package replica

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lazuli-storage/lazuli/internal/cluster/contentstream"
	"github.com/lazuli-storage/lazuli/internal/state/blob/encryption"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/storage/replog"
	"github.com/lazuli-storage/lazuli/internal/storage/secretfile"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/natscluster"
)

// openStreamed opens a store with content in streams.
func openStreamed(t *testing.T, c *natscluster.Cluster, dir string) *Node {
	t.Helper()
	s := check.Must(tryStreamed(t, c, dir, time.Hour, Follower{}))(t)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// tryStreamed opens a store with content in streams, which looks for streams to delete at intervals.
func tryStreamed(t *testing.T, c *natscluster.Cluster, dir string, every time.Duration, f Follower) (*Node, error) {
	t.Helper()
	log := check.Must(replog.Open(t.Context(),
		replog.Config{Conn: c.Conn(t, 0), Name: "blobs", Timeout: time.Minute, Log: slog.New(slog.DiscardHandler)}))(t)
	scopes := check.Must(encryption.OpenScopes("", func(string) []string { return []string{"s"} }))(t)
	return Open(Config{Path: filepath.Join(dir, "blobs.db"), Extents: filepath.Join(dir, "extents"),
		Scopes: scopes, Cluster: &Cluster{
			Log: log, Follower: f, Streams: &Streams{Config: contentstream.Config{Conn: c.Conn(t, 0), Replicas: 1, Grace: -1,
				Log: slog.New(slog.DiscardHandler)},
				AbsentAfter: time.Nanosecond, Every: every}}})
}

// create makes a change.
func create(s *Node, name string) error {
	return s.DB.Update(func(tx *store.Tx) error {
		record.PutContainer(tx, "a", name, &record.Container{})
		return nil
	})
}

// A server that answers no more is retired: its later changes fail, also if it was only cut off, and a start of its
// folder gets another number.
func TestServerThatIsRetired(t *testing.T) {
	t.Parallel()
	c := natscluster.Start(t, 1)
	dir := t.TempDir()
	a, b := openStreamed(t, c, dir), openStreamed(t, c, t.TempDir())
	check.OK(t, create(a, "one"))
	before := a.owner.number.Load()
	tend := func() { check.OK(t, b.mirror.(*tended).tend(t.Context())) }
	tend()
	check.OK(t, create(a, "two")) // it answers

	a.mirror.(*tended).Streams.Close() // as if it were cut off
	check.Eventually(t, func() bool {
		tend()
		retired, _, err := b.numbers()
		return err == nil && retired[before]
	}, "the server was not retired")
	check.OK(t, current(a)) // it learns of the end before it writes
	if r, _ := a.Replication(); !errors.Is(r.Err, errRetired) {
		t.Errorf("its state: %v", r.Err)
	}
	if err := create(a, "three"); !errors.Is(err, errRetired) || !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("a change by a server that was retired: %v", err)
	}
	check.OK(t, create(b, "three"))
	check.OK(t, a.Close())
	a = openStreamed(t, c, dir)
	if now := a.owner.number.Load(); now <= max(before, b.owner.number.Load()) {
		t.Errorf("the number was %d and is %d", before, now)
	}
	check.OK(t, create(a, "four"))
}

// A process that opens a copy of a folder whose process does not answer ends the session of that one: its changes fail,
// and it does not delete the streams of the later one.
func TestSessionThatEnds(t *testing.T) {
	t.Parallel()
	c := natscluster.Start(t, 1)
	dir, copied := t.TempDir(), t.TempDir()
	a := openStreamed(t, c, dir)
	a.mirror.(*tended).Streams.Close() // as if it were paused
	copyFolderName(t, dir, copied)
	b := openStreamed(t, c, copied)
	if b.owner.number.Load() != a.owner.number.Load() {
		t.Fatalf("the numbers are %d and %d, want the same", a.owner.number.Load(), b.owner.number.Load())
	}
	check.OK(t, current(a))
	if r, _ := a.Replication(); !errors.Is(r.Err, errRetired) {
		t.Errorf("its state: %v", r.Err)
	}
	if err := create(a, "one"); !errors.Is(err, errRetired) {
		t.Errorf("a change by the earlier process: %v, want errRetired", err)
	}
	w := b.Extents.NewWriter(100_000)
	defer w.Close()
	check.Must(w.Write(make([]byte, 100_000)))(t)
	list := check.Must(w.Commit())(t)
	none := func(uint64) bool { return false }
	if n, err := a.mirror.(*tended).Collect(t.Context(), b.References, none); n != 0 || err != nil {
		t.Errorf("the earlier process deleted %d streams, %v", n, err)
	}
	js := check.Must(jetstream.New(c.Conn(t, 0)))(t)
	if _, err := js.Stream(t.Context(), fmt.Sprintf("LAZULI_CONTENT_%016x", list[0].Extent)); err != nil {
		t.Errorf("the stream of the later process: %v", err)
	}
}

// A copy of a folder that is in use gets a number of its own.
func TestNumberOfACopiedFolder(t *testing.T) {
	t.Parallel()
	c := natscluster.Start(t, 1)
	dir, copied := t.TempDir(), t.TempDir()
	a := openStreamed(t, c, dir)
	b := openStreamed(t, c, copied)
	number := b.owner.number.Load()
	check.OK(t, b.Close())
	copyFolderName(t, dir, copied)
	b = openStreamed(t, c, copied)
	if n := b.owner.number.Load(); n == a.owner.number.Load() || n == number {
		t.Errorf("the copy has number %d", n)
	}
}

func copyFolderName(t *testing.T, from, to string) {
	t.Helper()
	name := check.Must(secretfile.Read(filepath.Join(from, "extents", folderFile), maxFolderName))(t)
	check.OK(t, os.MkdirAll(filepath.Join(to, "extents"), 0o700))
	check.OK(t, secretfile.Write(filepath.Join(to, "extents", folderFile), name))
}
