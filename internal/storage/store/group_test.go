package store

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/faultdisk"
)

// inGroup makes the given closures run in one group, in order, and returns their errors. A closure that panics
// returns its *Panic.
func inGroup(t *testing.T, db *DB, fns ...func(*Tx) error) []error {
	t.Helper()
	entered, release := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		_ = db.Update(func(*Tx) error { close(entered); <-release; return errAbort })
	})
	<-entered
	errs := make([]error, len(fns))
	for i, fn := range fns {
		wg.Go(func() {
			defer func() {
				if p, ok := recover().(*Panic); ok {
					errs[i] = p
				}
			}()
			errs[i] = db.Update(fn)
		})
		waitQueued(db, i+1)
	}
	close(release)
	wg.Wait()
	return errs
}

func waitQueued(db *DB, n int) {
	for {
		db.mu.Lock()
		got := len(db.queue)
		db.mu.Unlock()
		if got >= n {
			return
		}
		runtime.Gosched()
	}
}

func putting(key, value string) func(*Tx) error {
	return func(tx *Tx) error { tx.Put("a", []byte(key), []byte(value)); return nil }
}

func TestGroupMembersDoNotDisturbEachOther(t *testing.T) {
	t.Parallel()
	db := open(t, Options{})
	sawFirst, sawFailed := false, false
	errs := inGroup(t, db,
		putting("first", "1"),
		func(tx *Tx) error { tx.Put("a", []byte("failed"), []byte("1")); return errAbort },
		func(tx *Tx) error {
			tx.Put("a", []byte("panicked"), []byte("1"))
			tx.Delete("a", []byte("first"))
			panic(errAbort)
		},
		func(tx *Tx) error {
			sawFirst = tx.Get("a", []byte("first")) != nil
			sawFailed = tx.Get("a", []byte("failed")) != nil || tx.Get("a", []byte("panicked")) != nil
			tx.Put("a", []byte("last"), []byte("1"))
			return nil
		},
	)
	if errs[0] != nil || errs[1] != errAbort || errs[3] != nil {
		t.Errorf("errors are %v", errs)
	}
	var p *Panic
	if !errors.As(errs[2], &p) || !errors.Is(p, errAbort) || !strings.Contains(string(p.Stack), "TestGroupMembers") {
		t.Errorf("the panic came as %v", errs[2])
	}
	if !sawFirst || sawFailed {
		t.Errorf("the last closure saw the first: %v (want true), the failed ones: %v (want false)", sawFirst, sawFailed)
	}
	for key, value := range map[string]string{"first": "1", "failed": "", "panicked": "", "last": "1"} {
		want(t, db, "a", key, value)
	}
}

// The call that leads is the first of its group, also where calls that run again have come before it.
func TestTheLeaderIsTheFirstOfItsGroup(t *testing.T) {
	t.Parallel()
	db := open(t, Options{})
	again, leader, later := &call{}, &call{}, &call{}
	db.queue = []*call{again, leader, later}
	g := group{db: db, leader: leader}
	if g.take(); !slices.Equal(g.calls, []*call{leader, again, later}) || len(db.queue) != 0 {
		t.Errorf("%d calls are left, and the leader is not the first of %d", len(db.queue), len(g.calls))
	}
}

func TestGroupSharesOneCommit(t *testing.T) {
	t.Parallel()
	db := open(t, Options{})
	commits := 0
	faults(db).SetHook(onSync(func() error { commits++; return nil }))
	var fns []func(*Tx) error
	for i := range 50 {
		fns = append(fns, putting(fmt.Sprint(i), "1"))
	}
	for i, err := range inGroup(t, db, fns...) {
		if err != nil {
			t.Errorf("%d: %v", i, err)
		}
	}
	if commits != 1 {
		t.Errorf("%d commits for 50 waiting calls, want 1", commits)
	}
}

func TestReadOnlyGroupDoesNotCommit(t *testing.T) {
	t.Parallel()
	db := open(t, Options{})
	faults(db).SetHook(onSync(func() error { t.Error("committed nothing"); return nil }))
	defer faults(db).SetHook(nil)
	if err := db.Update(func(tx *Tx) error {
		tx.Get("a",
			[]byte("k"))
		tx.Cursor("a").Seek(nil)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// A closure that ends its goroutine, as t.FailNow does, takes neither the group nor the store with it.
func TestGoexitInGroup(t *testing.T) {
	t.Parallel()
	db := open(t, Options{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = db.Update(func(tx *Tx) error { tx.Put("a", []byte("k"), []byte("v")); runtime.Goexit(); return nil })
	}()
	<-done
	put(t, db, "a", "after", "1")
	want(t, db, "a", "k", "")
	errs := inGroup(t, db,
		func(tx *Tx) error { return nil },
		func(tx *Tx) error { runtime.Goexit(); return nil },
		putting("third", "1"),
	)
	if !errors.Is(errs[1], errGoexit) || errs[2] != nil {
		t.Errorf("errors are %v", errs)
	}
	want(t, db, "a", "third", "1")
}

func TestFailedCommitReachesTheWholeGroup(t *testing.T) {
	t.Parallel()
	db := open(t, Options{})
	faults(db).FailNth(1, syscall.ENOSPC, faultdisk.Write)
	errs := inGroup(t, db, putting("x", "1"), func(*Tx) error { return errAbort }, putting("y", "1"))
	for i, err := range errs {
		var refused *fs.PathError
		if !errors.As(err, &refused) {
			t.Errorf("call %d got %v", i, err)
		}
	}
	faults(db).SetHook(nil)
	want(t, db, "a", "x", "")
	put(t, db, "a", "x", "2") // a refused write leaves the store usable
	want(t, db, "a", "x", "2")
}

func TestFailedSyncStopsWrites(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "db")
	db, err := Open(path, Options{Buckets: []Bucket{"a"}, FS: &faultdisk.FS{}})
	if err != nil {
		t.Fatal(err)
	}
	put(t, db, "a", "k", "1")
	faults(db).SetHook(onSync(func() error { return syscall.EIO }))
	if err := db.Update(putting("k", "2")); !errors.Is(err, syscall.EIO) {
		t.Fatalf("got %v, want EIO", err)
	}
	faults(db).SetHook(nil)
	if err := db.Update(putting("k", "3")); !errors.Is(err, ErrFailed) || !errors.Is(err, syscall.EIO) {
		t.Errorf("got %v, want ErrFailed with its cause", err)
	}
	want(t, db, "a", "k", "1")
	if err := db.Close(); !errors.Is(err, ErrFailed) {
		t.Errorf("close: %v, want ErrFailed", err)
	}
	db = openAt(t, path, Options{})
	if v, _ := get(t, db, "a", "k"); v != "1" && v != "2" {
		t.Errorf("after opening again k is %q", v)
	}
	put(t, db, "a", "k", "4")
}

// TestConcurrentCounters checks isolation: increments of a few counters by many goroutines, some of them aborted, are
// neither lost nor doubled, and snapshots are consistent.
func TestConcurrentCounters(t *testing.T) {
	t.Parallel()
	db := open(t, Options{Relaxed: true})
	const workers, rounds = 16, 200
	var added atomic.Int64
	var wg, watch sync.WaitGroup
	stop := make(chan struct{})
	watch.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			_ = db.View(func(tx *Tx) error {
				if x, y := tx.Get("a", []byte("n")), tx.Get("b", []byte("n")); string(x) != string(y) {
					t.Errorf("a snapshot has %s in one bucket and %s in the other", x, y)
				}
				return nil
			})
		}
	})
	for w := range workers {
		wg.Go(func() {
			for r := range rounds {
				err := db.Update(func(tx *Tx) error {
					var n int
					fmt.Sscan(string(tx.Get("a", []byte("n"))), &n)
					v := fmt.Append(nil, n+1)
					tx.Put("a", []byte("n"), v)
					tx.Put("b", []byte("n"), v)
					if (r+w)%7 == 0 {
						return errAbort
					}
					return nil
				})
				if err == nil {
					added.Add(1)
				} else if err != errAbort {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	close(stop)
	watch.Wait()
	want(t, db, "a", "n", fmt.Sprint(added.Load()))
}

// TestSnapshotsWhileLayersMove passes a token from key to key while generations turn as fast as they can: every
// snapshot sees it exactly once, also one that is taken between two layers.
func TestSnapshotsWhileLayersMove(t *testing.T) {
	t.Parallel()
	db := open(t, Options{Ephemeral: true})
	db.memtableSize = 1
	put(t, db, "a", "token0", "x")
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				var seen []string
				err := db.View(func(tx *Tx) error {
					c := tx.Cursor("a")
					for k, _ := c.Seek(nil); k != nil; k, _ = c.Next() {
						seen = append(seen, string(k))
					}
					return nil
				})
				if err != nil || len(seen) != 1 {
					t.Errorf("a snapshot has the tokens %v, %v", seen, err)
					return
				}
			}
		})
	}
	for i := range check.Size(100, 300) {
		err := db.Update(func(tx *Tx) error {
			tx.Delete("a", fmt.Append(nil, "token", i))
			tx.Put("a", fmt.Append(nil, "token", i+1), []byte("x"))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	wg.Wait()
}
