package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/natscluster"
)

// Groups begin on the state of those in flight, whose keys they find by Get and by a Cursor, while another node appends
// now and then and makes them fail. Every call that was acknowledged has counted once, in each of its two keys, and a
// View sees no state that was not committed: the two keys never differ.
func TestGroupsInFlight(t *testing.T) {
	t.Parallel()
	c := natscluster.Start(t, 3)
	nodes := openNodes(t, c, "flight")
	db := nodes[0]
	const callers, running = 24, 6
	var built, failed, counted atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	// A call begins when the closure of another one runs, not when that is committed. Otherwise all callers would soon
	// wait for the same group, and none for one that is built on it.
	begin := make(chan struct{}, callers)
	for range running {
		begin <- struct{}{}
	}
	// The other node's turn comes once in some calls: if it appended all the time, hardly a group would be committed.
	turn := make(chan struct{}, 1)
	count := func(node *DB) error {
		var on int
		var once sync.Once
		err := node.Update(func(tx *Tx) error {
			if node == db {
				once.Do(func() { begin <- struct{}{} })
			}
			on = len(tx.flying)
			n := number(tx, "n")
			if m := number(tx, "m"); m != n {
				return fmt.Errorf("the keys have %d and %d", n, m)
			}
			k, v := tx.Cursor("a").Seek([]byte("n"))
			if n > 0 && (string(k) != "n" || string(v) != fmt.Sprint(n)) {
				return fmt.Errorf("a cursor finds %q with %q, Get %d", k, v, n)
			}
			tx.Put("a", []byte("n"), fmt.Append(nil, n+1))
			tx.Put("a", []byte("m"), fmt.Append(nil, n+1))
			return nil
		})
		if on > 0 {
			built.Add(1)
		}
		if err == nil && counted.Add(1)%callers == 0 {
			select {
			case turn <- struct{}{}:
			default:
			}
		}
		return err
	}
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-begin:
				case <-ctx.Done():
					return
				}
				check.OK(t, count(db))
				if i == 0 && n%4 == 0 { // only reads, and must have the current state
					before, seen := counted.Load(), 0
					err := db.Update(func(tx *Tx) error { seen = number(tx, "n"); return errAbort })
					if !errors.Is(err, errAbort) || int64(seen) < before {
						t.Errorf("a closure without writes: %v, sees %d, and %d were acknowledged before", err, seen, before)
					}
				}
			}
		})
	}
	wg.Go(func() {
		for {
			select {
			case <-turn:
			case <-ctx.Done():
				return
			}
			check.OK(t, nodes[2].View(func(tx *Tx) error {
				if n, m := number(tx, "n"), number(tx, "m"); n != m {
					t.Errorf("a View sees %d and %d", n, m)
				}
				return nil
			}))
			before := db.replica.log.Status().Conflicts
			check.OK(t, count(nodes[2]))
			if db.replica.log.Status().Conflicts > before {
				failed.Add(1)
			}
		}
	})
	check.Eventually(t, func() bool { return built.Load() > 200 && failed.Load() > 10 && counted.Load() > 1000 },
		"groups in flight were built on, and failed")
	stop()
	wg.Wait()
	for _, node := range nodes {
		want(t, node, "a", "n", fmt.Sprint(counted.Load()))
	}
	check.Eventually(t, func() bool {
		db.mu.Lock()
		defer db.mu.Unlock()
		return db.flying == 0 && !db.leading
	}, "nothing is in flight any more")
	if f := &db.flights; f.bytes != 0 || f.calls != 0 || len(f.list) != 0 || len(f.again) != 0 {
		t.Errorf("left over: %d bytes, %d calls, %d groups", f.bytes, f.calls, len(f.list))
	}
}

// Nothing is built on a hold that is in flight: the node that appends it holds its own writes as well.
func TestNothingIsBuiltOnAHold(t *testing.T) {
	t.Parallel()
	c := natscluster.Start(t, 1)
	db := openNodes(t, c, "hold")[0]
	put(t, db, "a", "k", "before")
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer func() { stop(); wg.Wait() }()
	for i := range 8 {
		wg.Go(func() {
			for ctx.Err() == nil {
				put(t, db, "a", fmt.Sprint("k", i), "v")
			}
		})
	}
	visible := func() uint64 { return db.layers.Load().active.visible.Load() }
	for n := range uint64(3) {
		check.Eventually(t, func() bool {
			db.flights.mu.Lock()
			defer db.flights.mu.Unlock()
			return len(db.flights.list) > 1
		}, "groups are in flight")
		// The hold begins before it returns, and this goroutine may come to run late in it. What is visible changes next
		// when the hold is over: not before HoldLease has passed since it was asked for.
		asked := time.Now()
		check.OK(t, db.hold(n))
		at := visible()
		check.Eventually(t, func() bool { return visible() != at }, "the writes go on after the hold")
		if waited := time.Since(asked); waited < HoldLease {
			t.Errorf("a write was applied %v after the hold was asked for, which lasts %v", waited, HoldLease)
		}
	}
}

// Close waits for what is in flight.
func TestCloseWithGroupsInFlight(t *testing.T) {
	t.Parallel()
	c := natscluster.Start(t, 1)
	db := openNodes(t, c, "close")[0]
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for n := range math.MaxInt {
				err := db.Update(func(tx *Tx) error { tx.Put("a", fmt.Append(nil, i), fmt.Append(nil, n)); return nil })
				if errors.Is(err, ErrClosed) {
					return
				}
				check.OK(t, err)
			}
		})
	}
	check.Eventually(t, func() bool { return db.replica.log.Status().Appends > 20 }, "there are appends")
	check.OK(t, db.Close())
	wg.Wait()
}
