package store

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"

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
		queued := func(n int) {
			check.Eventually(t, func() bool {
				db.mu.Lock()
				defer db.mu.Unlock()
				return len(db.queue) == n
			}, "%d calls wait", n)
		}
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
		// In the first case a call of the crowd leads; in the second six end their group, and one leads the next.
		if n := before.Load(); n > 7 || ran.Load() != crowd {
			t.Errorf("during a group: %v: %d of %d transactions of the crowd ran before", during, n, ran.Load())
		}
	}
}
