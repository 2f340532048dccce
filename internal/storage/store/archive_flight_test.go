package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/natscluster"
)

// sharedArchive is the archive of a node of a cluster, in memory: the log has the times.
type sharedArchive struct {
	archived
	mu   sync.Mutex // guards list
	list []Group
}

func (*sharedArchive) Stamp() int64 { return 0 }
func (*sharedArchive) Drop()        { /* nothing was noted */ }

func (a *sharedArchive) Group(g Group) {
	a.mu.Lock()
	defer a.mu.Unlock()
	g.Payload = bytes.Clone(g.Payload)
	a.list = append(a.list, g)
}

// An archive of a node whose groups are in flight has each moment: every count that was acknowledged before it, none
// that began after it, and no half of one. Another node appends now and then, and makes groups in flight fail.
func TestAnArchiveHasEachMomentOfGroupsInFlight(t *testing.T) {
	t.Parallel()
	c := natscluster.Start(t, 3)
	a := &sharedArchive{}
	db := openAt(t, filepath.Join(t.TempDir(), "db"), Options{Log: openLog(t, c, 0, "archived"), Archive: a})
	other := openAt(t, filepath.Join(t.TempDir(), "db"), Options{Log: openLog(t, c, 2, "archived")})
	var mu sync.Mutex // guards began, acked
	var began, acked []time.Time
	var built, counted atomic.Int64
	// A call begins when the closure of another one runs: see TestGroupsInFlight.
	const callers, running = 24, 6
	begin := make(chan struct{}, callers)
	for range running {
		begin <- struct{}{}
	}
	count := func(node *DB) error {
		mu.Lock()
		began = append(began, time.Now())
		mu.Unlock()
		on := 0
		var once sync.Once
		err := node.Update(func(tx *Tx) error {
			if node == db {
				once.Do(func() { begin <- struct{}{} })
			}
			on = len(tx.flying)
			n := number(tx, "n")
			tx.Put("a", []byte("n"), fmt.Append(nil, n+1))
			tx.Put("a", []byte("m"), fmt.Append(nil, n+1))
			return nil
		})
		if err == nil {
			mu.Lock()
			acked = append(acked, time.Now())
			mu.Unlock()
			counted.Add(1)
			if on > 0 {
				built.Add(1)
			}
		}
		return err
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for {
				select {
				case <-begin:
				case <-ctx.Done():
					return
				}
				check.OK(t, count(db))
			}
		})
	}
	wg.Go(func() {
		for last := int64(0); ctx.Err() == nil; time.Sleep(time.Millisecond) {
			if n := counted.Load(); n >= last+callers {
				last = n
				check.OK(t, count(other))
			}
		}
	})
	check.Eventually(t, func() bool { return built.Load() > 200 && counted.Load() > 600 }, "groups in flight are built on")
	stop()
	wg.Wait()
	want(t, db, "a", "n", fmt.Sprint(counted.Load()))

	a.mu.Lock()
	defer a.mu.Unlock()
	restored := openAt(t, filepath.Join(t.TempDir(), "restored"), Options{Ephemeral: true})
	moments, prev := 0, uint64(0)
	before := func(list []time.Time, at time.Time) (n int) {
		for _, when := range list {
			if when.Before(at) {
				n++
			}
		}
		return n
	}
	for i, g := range a.list {
		if g.Prev != prev || g.Number <= g.Prev {
			t.Fatalf("group %d follows %d, and the archive has %d", g.Number, g.Prev, prev)
		}
		prev = g.Number
		check.OK(t, restored.Apply(g.Payload))
		// The moments between this group and the next one; all clocks are one.
		if i+1 < len(a.list) && a.list[i+1].At <= g.At {
			continue
		}
		at := time.Unix(0, g.At+1)
		if i+1 < len(a.list) {
			at = time.Unix(0, a.list[i+1].At)
		}
		var n, m int
		check.OK(t, restored.View(func(tx *Tx) error { n, m = number(tx, "n"), number(tx, "m"); return nil }))
		moments++
		if least, most := before(acked, at), before(began, at); n != m || n < least || n > most {
			t.Errorf("the moment %v has %d and %d, of which %d were acknowledged before and %d had begun", at, n, m, least, most)
		}
	}
	if n := counted.Load(); moments < 20 {
		t.Errorf("%d moments of %d counts", moments, n)
	}
	want(t, restored, "a", "n", fmt.Sprint(counted.Load()))
	t.Logf("%d counts in %d groups, %d built on groups in flight, %d moments", counted.Load(), len(a.list), built.Load(),
		moments)
}

// If the leave of the archive ends while a group is in flight, its callers do not learn that it was committed.
func TestAnArchiveThatAllowsNoMoreGroupsInFlight(t *testing.T) {
	t.Parallel()
	c := natscluster.Start(t, 1)
	refused := errors.New("refused")
	var fenced atomic.Bool
	a := &sharedArchive{}
	a.allow = func() error {
		if fenced.Load() {
			return refused
		}
		return nil
	}
	db := openAt(t, filepath.Join(t.TempDir(), "db"), Options{Log: openLog(t, c, 0, "fenced"), Archive: a})
	var inFlight atomic.Int64
	var wg sync.WaitGroup
	for range 24 {
		wg.Go(func() {
			for {
				first := false
				err := db.Update(func(tx *Tx) error {
					if len(tx.flying) > 0 && fenced.CompareAndSwap(false, true) {
						first = true
					}
					tx.Put("a", []byte("n"), fmt.Append(nil, number(tx, "n")+1))
					return nil
				})
				if first {
					inFlight.Add(1)
					if !errors.Is(err, ErrFenced) || !errors.Is(err, ErrUnknown) {
						t.Errorf("a group in flight when the leave ended: %v, want ErrFenced and ErrUnknown", err)
					}
				}
				if err != nil {
					if !errors.Is(err, ErrFenced) {
						t.Error(err)
					}
					return
				}
			}
		})
	}
	wg.Wait()
	if inFlight.Load() != 1 {
		t.Errorf("%d calls were in flight when the leave ended", inFlight.Load())
	}
}
