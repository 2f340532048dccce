package store

import (
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/test/check"
)

func TestInTurns(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		accounts, want []string
		several        bool
	}{
		{[]string{"a1", "a2", "a3"}, []string{"a1", "a2", "a3"}, false},
		{[]string{"a1", "-1", "a2"}, []string{"a1", "-1", "a2"}, false},
		{[]string{"-1", "-2"}, []string{"-1", "-2"}, false},
		{[]string{"a1", "a2", "a3", "b1"}, []string{"a1", "b1", "a2", "a3"}, true},
		{[]string{"a1", "a2", "b1", "-1", "a3", "b2", "c1"}, []string{"a1", "b1", "-1", "c1", "a2", "b2", "a3"}, true},
	} {
		names := make(map[*call]string)
		var calls []*call
		for _, name := range tc.accounts {
			c := &call{account: name[:1]}
			if c.account == "-" {
				c.account = ""
			}
			calls, names[c] = append(calls, c), name
		}
		ordered, several := inTurns(calls)
		var got []string
		for _, c := range ordered {
			got = append(got, names[c])
		}
		if !slices.Equal(got, tc.want) || several != tc.several {
			t.Errorf("%v: %v, several: %v, want %v, %v", tc.accounts, got, several, tc.want, tc.several)
		}
	}
}

func awaitQueue(t *testing.T, db *DB, n int) {
	t.Helper()
	check.Eventually(t, func() bool {
		db.mu.Lock()
		defer db.mu.Unlock()
		return len(db.queue) == n
	}, "%d calls wait", n)
}

// write writes n bytes for an account.
func write(t *testing.T, db *DB, account, key string, n int) {
	check.OK(t, db.UpdateFor(account, func(tx *Tx) error { tx.Put("a", []byte(key), make([]byte, n)); return nil }))
}

// An account with many large transactions does not hold up one with a single call, whether that comes before their
// group begins or while it runs.
func TestAnAccountDoesNotWaitForAllCallsOfAnother(t *testing.T) {
	t.Parallel()
	const crowd = 40
	for _, during := range []bool{false, true} {
		db := open(t, Options{Relaxed: true})
		var wg sync.WaitGroup
		update := func(account string, fn func(*Tx)) {
			wg.Go(func() {
				if err := db.UpdateFor(account, func(tx *Tx) error { fn(tx); return nil }); err != nil {
					t.Error(err)
				}
			})
		}
		queued := func(n int) { awaitQueue(t, db, n) }
		var ran, before atomic.Int32
		running, hold, first := make(chan struct{}), make(chan struct{}), make(chan struct{})
		update("crowd", func(*Tx) { close(running); <-hold })
		<-running
		begun := make(chan struct{})
		for i := range crowd {
			update("crowd", func(tx *Tx) {
				if ran.Add(1) == 1 && during {
					close(begun)
					<-first
				}
				tx.Put("a", []byte{byte(i)}, make([]byte, 100<<10))
			})
		}
		queued(crowd)
		other := func() { update("other", func(tx *Tx) { before.Store(ran.Load()); tx.Put("b", []byte("k"), nil) }) }
		if during {
			close(hold)
			<-begun
			other()
			queued(1)
			close(first)
		} else {
			other()
			queued(crowd + 1)
			close(hold)
		}
		wg.Wait()
		// In the first case a call of the crowd leads; in the second three end their group, and one leads the next.
		if n := before.Load(); n > 4 || ran.Load() != crowd {
			t.Errorf("during a group: %v: %d of %d transactions of the crowd ran before", during, n, ran.Load())
		}
	}
}

// A client calls again after its answer: until then groups of another account stay small.
func TestGroupsStaySmallBetweenCallsOfAnAccount(t *testing.T) {
	t.Parallel()
	db := open(t, Options{Relaxed: true})
	groups := func(several time.Time) int64 {
		before, _ := db.Commits()
		running, hold := make(chan struct{}), make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			check.OK(t, db.UpdateFor("crowd", func(*Tx) error { close(running); <-hold; return nil }))
		})
		<-running
		for i := range 20 {
			wg.Go(func() { write(t, db, "crowd", strconv.Itoa(i), 100<<10) })
		}
		awaitQueue(t, db, 20)
		db.mu.Lock()
		db.mixed.Store(true)
		db.several = several
		db.mu.Unlock()
		close(hold)
		wg.Wait()
		after, _ := db.Commits()
		return after - before
	}
	if n := groups(time.Now().Add(time.Hour)); n < 6 {
		t.Errorf("20 calls of 100 KiB were in %d groups right after a call of another account", n)
	}
	if n := groups(time.Now().Add(-time.Hour)); n != 1 {
		t.Errorf("20 calls of 100 KiB were in %d groups long after a call of another account, want 1", n)
	}
}

// An account that fills memtables faster than they can be written waits for that. Another one does not, whether its
// call comes during the wait or before.
func TestAnAccountDoesNotWaitForTheMemtablesOfAnother(t *testing.T) {
	t.Parallel()
	for _, first := range []bool{false, true} {
		db := open(t, Options{Relaxed: true, MemtableSize: 64 << 10})
		written := make(chan struct{})
		db.fault = func() error { <-written; return nil }
		var wg sync.WaitGroup
		write(t, db, "crowd", "1", 64<<10)
		write(t, db, "crowd", "2", (memtableWait*64)<<10) // freezes the first, and fills the next
		var other []chan struct{}
		start := func() {
			done := make(chan struct{})
			other = append(other, done)
			wg.Go(func() { write(t, db, "other", "4", 100); close(done) })
		}
		if first {
			db.mu.Lock() // the call of the crowd that leads and the other one come at once
		}
		for range 3 {
			wg.Go(func() { write(t, db, "crowd", "3", 1000) })
		}
		if first {
			start()
			db.mu.Unlock()
		} else {
			check.Eventually(t, func() bool {
				db.mu.Lock()
				defer db.mu.Unlock()
				return db.stalled != nil && len(db.queue) == 3
			}, "the crowd waits for the checkpoint")
			start()
		}
		<-other[0]
		start() // once more, while the crowd leads again
		<-other[1]
		if n := db.layers.Load().active.bytes; n > 4*64<<10 {
			t.Errorf("the memtable has %d bytes", n)
		}
		if db.layers.Load().frozen == nil {
			t.Error("the checkpoint has ended")
		}
		close(written)
		wg.Wait()
	}
}

// The room that the memtable has beyond its limit ends as well.
func TestTheRoomForOtherAccountsIsLimited(t *testing.T) {
	t.Parallel()
	db := open(t, Options{Relaxed: true, MemtableSize: 64 << 10})
	written := make(chan struct{})
	db.fault = func() error { <-written; return nil }
	write(t, db, "crowd", "1", 64<<10)
	write(t, db, "crowd", "2", (memtableWait*64)<<10)
	write(t, db, "b", "3", 64<<10) // ends beyond the room
	var ended atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		write(t, db, "c", "4", 1)
		if !ended.Load() {
			t.Error("a call of a third account did not wait for the checkpoint")
		}
	})
	waitForRoom := func() bool {
		db.mu.Lock()
		defer db.mu.Unlock()
		return db.leading && len(db.queue) == 0
	}
	check.Eventually(t, waitForRoom, "the call leads a group")
	ended.Store(true)
	close(written)
	wg.Wait()
}
