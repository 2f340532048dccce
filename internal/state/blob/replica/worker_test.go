package replica

import (
	"errors"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/natscluster"
)

func TestOneNodeIsTheWorker(t *testing.T) {
	t.Parallel()
	c := natscluster.Start(t, 1)
	a, b := openStreamed(t, c, t.TempDir()), openStreamed(t, c, t.TempDir())
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	claim := func(s *Node, at time.Time, want bool) {
		t.Helper()
		if got := check.Must(s.Claim(at))(t); got != want {
			t.Errorf("Claim: %v, want %v", got, want)
		}
	}
	claim(a, now, true)
	claim(b, now, false)
	for s, want := range map[*Node]error{a: nil, b: ErrNotWorker} {
		if got := s.Worker(); got != a.Name() || got == "" {
			t.Errorf("the worker is %q, want %q", got, a.Name())
		}
		check.OK(t, s.DB.View(func(tx *store.Tx) error {
			if err := s.CheckWorker(tx); !errors.Is(err, want) {
				t.Errorf("CheckWorker: %v, want %v", err, want)
			}
			return nil
		}))
	}
	claim(a, now.Add(workerTerm-time.Second), true) // renewed
	check.OK(t, current(b))
	if got := b.worker.Load().until; got != a.worker.Load().until {
		t.Errorf("the other node knows of a term until %d, want %d", got, a.worker.Load().until)
	}
	claim(b, now.Add(workerTerm+time.Second), false)
	claim(b, now.Add(2*workerTerm), true) // the first one has stopped
	check.OK(t, current(a))
	claim(a, now.Add(2*workerTerm), false)
}

// current returns once changes that any node has made before the call are known to the node.
func current(s *Node) error { return s.DB.View(func(*store.Tx) error { return nil }) }
