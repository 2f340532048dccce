package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/faultdisk"
	"github.com/lazuli-storage/lazuli/internal/test/natscluster"
)

// archived is an Archive in memory.
type archived struct {
	stamps int64
	drops  int
	groups []string
	opened uint64
	allow  func() error
}

func (a *archived) Stamp() int64 { a.stamps++; return 1000 * a.stamps }
func (a *archived) Drop()        { a.drops++ }

func (a *archived) Group(g Group) {
	writes := ""
	_ = readPayload(g.Payload, func(b Bucket, w Write) error {
		writes += fmt.Sprintf(" %s/%s", b, w.Key)
		return nil
	})
	a.groups = append(a.groups, fmt.Sprintf("%d after %d at %d:%s", g.Number, g.Prev, g.At, writes))
}

func (a *archived) Sync()                { /* it is in memory */ }
func (a *archived) Opened(newest uint64) { a.opened = newest }

func (a *archived) Allow() error {
	if a.allow == nil {
		return nil
	}
	return a.allow()
}

// wantGroups fails the test unless the archive has received these groups.
func (a *archived) wantGroups(t *testing.T, groups ...string) {
	t.Helper()
	if !slices.Equal(a.groups, groups) {
		t.Errorf("the archive has %q, want %q", a.groups, groups)
	}
}

// An archive receives each group that has writes, with the time of its Stamp; and again, with that time, what the file
// lacked when a process was killed.
func TestAnArchiveReceivesEachGroup(t *testing.T) {
	t.Parallel()
	dir, a := check.MemoryDir(t), &archived{}
	db := openAt(t, filepath.Join(dir, "db"), Options{Archive: a, Attachments: newAttached()})
	put(t, db, "a", "k", "v")
	check.OK(t, db.Update(func(*Tx) error { return nil }))
	check.OK(t, db.Update(func(tx *Tx) error { tx.Attach([]byte("x"), []byte("y")); return nil }))
	put(t, db, "b", "l", "w")
	want := []string{"1 after 0 at 1000: a/k", "2 after 1 at 2000:", "3 after 2 at 3000: b/l"}
	a.wantGroups(t, want...)
	killed := check.MemoryDir(t)
	snapshotDir(t, dir, killed)
	again := &archived{}
	openAt(t, filepath.Join(killed, "db"), Options{Archive: again, Attachments: newAttached()})
	again.wantGroups(t, want...)
	if again.opened != 3 {
		t.Errorf("it was opened with %d groups", again.opened)
	}
}

// The groups of a replicated log have the times with which they were appended.
func TestAnArchiveReceivesReplicatedGroups(t *testing.T) {
	t.Parallel()
	c, a := natscluster.Start(t, 1), &archived{}
	path := filepath.Join(t.TempDir(), "db")
	db := openAt(t, path, Options{Log: openLog(t, c, 0, "alone"), Private: true, Archive: a})
	put(t, db, "a", "k", "v")
	check.OK(t, db.Update(func(*Tx) error { return nil }))
	put(t, db, "b", "l", "w")
	if len(a.groups) != 2 {
		t.Fatalf("the archive has %q", a.groups)
	}
	last, prev := db.layers.Load().active.newest, uint64(0)
	var first uint64
	if _, err := fmt.Sscanf(a.groups[1], "%d after %d at 2000: b/l", &first, &prev); err != nil || first != last {
		t.Errorf("%q is not the group %d: %v", a.groups[1], last, err)
	}
	if want := fmt.Sprintf("%d after 0 at 1000: a/k", prev); a.groups[0] != want {
		t.Errorf("%q, want %q", a.groups[0], want)
	}
}

// Without the leave of its archive a store writes nothing. If the leave ends while a group is being written, its
// callers do not learn that it was: it may be there or not.
func TestAnArchiveThatAllowsNoWrites(t *testing.T) {
	t.Parallel()
	refused := errors.New("refused")
	for name, o := range map[string]Options{
		"alone":      {},
		"replicated": {Log: openLog(t, natscluster.Start(t, 1), 0, "alone"), Private: true},
	} {
		a := &archived{}
		o.Archive = a
		db := openAt(t, filepath.Join(t.TempDir(), "db"), o)
		a.allow = func() error { return refused }
		increased := increment(db, "n")
		if !errors.Is(increased, ErrFenced) || !errors.Is(increased, refused) || errors.Is(increased, ErrUnknown) {
			t.Errorf("%s: %v, want ErrFenced", name, increased)
		}
		want(t, db, "a", "n", "")
		asked := 0
		a.allow = func() error {
			if asked++; asked > 1 {
				return refused
			}
			return nil
		}
		if err := increment(db, "n"); !errors.Is(err, ErrFenced) || !errors.Is(err, ErrUnknown) {
			t.Errorf("%s: %v, want ErrFenced and ErrUnknown", name, err)
		}
		want(t, db, "a", "n", "1")
		a.allow = nil
		check.OK(t, increment(db, "n"))
		if want(t, db, "a", "n", "2"); a.stamps != 2 || a.drops != 0 || len(a.groups) != 2 {
			t.Errorf("%s: %d times, %d dropped, groups %q", name, a.stamps, a.drops, a.groups)
		}
	}
}

// The time of a group that was not written is free again; that of one whose sync has failed is not, since the next Open
// may find the group.
func TestAnArchiveAndADiskThatFails(t *testing.T) {
	t.Parallel()
	for kind, drops := range map[faultdisk.Kind]int{faultdisk.Write: 1, faultdisk.Sync: 0} {
		a := &archived{}
		db, err := Open(filepath.Join(t.TempDir(), "db"),
			Options{Buckets: []Bucket{"a", "b"}, Archive: a, FS: &faultdisk.FS{}})
		check.OK(t, err)
		put(t, db, "a", "k", "v")
		faults(db).Fail(1, faultdisk.Failure{Err: syscall.EIO, Once: true}, kind)
		if err := increment(db, "n"); !errors.Is(err, syscall.EIO) {
			t.Errorf("%s fails: %v", kind, err)
		}
		if a.drops != drops || len(a.groups) != 1 {
			t.Errorf("%s fails: %d times are dropped, want %d; groups %q", kind, a.drops, drops, a.groups)
		}
		_ = db.Close()
	}
}

// The record of a private log that is applied must have room, so a store whose file cannot be written refuses what it
// would append. It goes on once the file can be written.
func TestAPrivateLogIsNotAheadOfItsRoom(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "db")
	db := openAt(t, path, Options{Log: openLog(t, natscluster.Start(t, 1), 0, "alone"), Private: true})
	db.memtableSize = 4 * entryOverhead
	full := func() error { return &os.PathError{Op: "write", Path: path, Err: syscall.ENOSPC} }
	db.fault = full
	var err error
	written := 0
	for err == nil && written < 1000 {
		if err = db.Update(func(tx *Tx) error { tx.Put("a", fmt.Append(nil, written), nil); return nil }); err == nil {
			written++
		}
	}
	if !errors.Is(err, ErrDisk) || written < 4 {
		t.Fatalf("after %d writes: %v, want ErrDisk", written, err)
	}
	check.OK(t, db.View(func(tx *Tx) error {
		if tx.Get("a", fmt.Append(nil, written)) != nil || tx.Get("a", fmt.Append(nil, written-1)) == nil {
			t.Error("what was refused was written, or what was acknowledged was not")
		}
		return nil
	}))
	_ = db.awaitCheckpoint()
	db.fault = nil
	put(t, db, "a", "after", "v")
	want(t, db, "a", "after", "v")
}
