package locks

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/lazuli-storage/lazuli/internal/sdk/sdkerr"
	"github.com/lazuli-storage/lazuli/workers/internal/calls"
	"github.com/lazuli-storage/lazuli/workers/internal/queues"
)

// Singleton runs a function on one instance at a time, with a blob lease as lock.
//
// The storage service decides which instance holds the lock. An instance assumes that it holds the lock for one period
// after the start of its last successful renewal, by its clock; then it stops the function, whether or not it could
// reach the service. From then on, another instance can acquire the lock. Two instances can run the function at the
// same time for a short while if their clocks run at different speeds, or if a handler does not react to its cancelled
// context. Handlers must tolerate that.
type Singleton struct {
	Store  Store
	Name   string
	Owner  string
	Period time.Duration // of the lease; renewed at half
	Retry  time.Duration // between attempts to acquire it
	Clock  calls.Clock
	Log    *slog.Logger

	Elsewhere atomic.Bool // another instance held the lock at the last attempt
}

// Lead acquires the lock, calls work while it holds the lock, and starts over when the lock is lost, until soft is
// done. The contexts of work are derived from soft and hard, and are also cancelled, with the cause ErrLeaseLost, when
// the lock is lost. The lock is renewed until work returns, and then released.
func (s *Singleton) Lead(soft, hard context.Context, work func(soft, hard context.Context)) {
	failing, waiting := "", false // what was logged last
	for soft.Err() == nil {
		asked := s.Clock.Now()
		id, err := s.Store.Acquire(hard, s.Name, s.Owner, s.Period)
		s.Elsewhere.Store(errors.Is(err, ErrHeldByOther))
		switch {
		case err == nil:
			s.Log.Info("Host lock lease acquired by instance ID '"+s.Owner+"'.", "lock", s.Name)
			failing, waiting = "", false
			s.hold(soft, hard, id, asked.Add(s.Period), work)
			continue
		case errors.Is(err, ErrHeldByOther):
			failing = ""
			if !waiting {
				s.Log.Info("another instance holds the lock; waiting for it", "lock", s.Name)
			}
			waiting = true
		case hard.Err() != nil:
		case sdkerr.Text(err) != failing: // A repeated error is logged once.
			failing = sdkerr.Text(err)
			s.Log.Error("acquiring the lock failed; retrying", "lock", s.Name, "err", sdkerr.Short(err))
		}
		s.Pause(soft, s.Retry)
	}
}

// hold calls work and renews the lock until work returns.
func (s *Singleton) hold(soft, hard context.Context, id string, expires time.Time,
	work func(soft, hard context.Context)) {
	soft, stopSoft := context.WithCancelCause(soft)
	hard, stopHard := context.WithCancelCause(hard)
	defer stopSoft(nil)
	defer stopHard(nil)
	done := make(chan struct{})
	go func() {
		defer close(done)
		work(soft, hard)
	}()
	if s.renewUntil(done, id, expires) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(hard), queues.SettleTimeout)
		defer cancel()
		if err := s.Store.Release(ctx, s.Name, id); err != nil && !errors.Is(err, queues.ErrNotHeld) {
			s.Log.Warn("releasing the lock failed; it expires", "lock", s.Name, "err", sdkerr.Short(err))
		}
		return
	}
	s.Log.Warn("lost the lock; stopping its function", "lock", s.Name)
	stopSoft(calls.ErrLeaseLost)
	stopHard(calls.ErrLeaseLost)
	<-done
}

// renewUntil renews the lock until done is closed. It returns false if the lock is lost before.
func (s *Singleton) renewUntil(done <-chan struct{}, id string, expires time.Time) bool {
	interval := s.Period / 2
	for {
		timer := s.Clock.NewTimer(interval)
		select {
		case <-done:
			timer.Stop()
			return true
		case <-timer.C():
		}
		now := s.Clock.Now()
		most := max(expires.Sub(now), time.Millisecond)
		if _, ok := s.Clock.(calls.SystemClock); !ok {
			most = queues.SettleTimeout // A fake clock can advance by an hour during the request.
		}
		ctx, cancel := context.WithTimeout(context.Background(), most)
		err := s.Store.Renew(ctx, s.Name, id)
		cancel()
		switch left := expires.Sub(s.Clock.Now()); {
		case err == nil:
			expires, interval = now.Add(s.Period), s.Period/2
		case errors.Is(err, queues.ErrNotHeld), left <= 0:
			return false
		default:
			interval = min(max(interval/2, time.Second), left)
		}
	}
}

// Pause waits for d, or until ctx is done.
func (s *Singleton) Pause(ctx context.Context, d time.Duration) {
	timer := s.Clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
	case <-ctx.Done():
	}
}
