package workers

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/lazuli-storage/lazuli/internal/sdk/sdkerr"
)

// singleton runs a function on one instance at a time, with a blob lease as lock.
//
// The storage service decides which instance holds the lock. An instance assumes that it holds the lock for one period
// after the start of its last successful renewal, by its clock; then it stops the function, whether or not it could
// reach the service. From then on, another instance can acquire the lock. Two instances can run the function at the
// same time for a short while if their clocks run at different speeds, or if a handler does not react to its cancelled
// context. Handlers must tolerate that.
type singleton struct {
	store  hostStore
	name   string
	owner  string
	period time.Duration // of the lease; renewed at half
	retry  time.Duration // between attempts to acquire it
	clock  Clock
	log    *slog.Logger

	elsewhere atomic.Bool // another instance held the lock at the last attempt
}

// lead acquires the lock, calls work while it holds the lock, and starts over when the lock is lost, until soft is
// done. The contexts of work are derived from soft and hard, and are also cancelled, with the cause ErrLeaseLost, when
// the lock is lost. The lock is renewed until work returns, and then released.
func (s *singleton) lead(soft, hard context.Context, work func(soft, hard context.Context)) {
	failing, waiting := "", false // what was logged last
	for soft.Err() == nil {
		asked := s.clock.Now()
		id, err := s.store.acquire(hard, s.name, s.owner, s.period)
		s.elsewhere.Store(errors.Is(err, errHeldByOther))
		switch {
		case err == nil:
			s.log.Info("Host lock lease acquired by instance ID '"+s.owner+"'.", "lock", s.name)
			failing, waiting = "", false
			s.hold(soft, hard, id, asked.Add(s.period), work)
			continue
		case errors.Is(err, errHeldByOther):
			failing = ""
			if !waiting {
				s.log.Info("another instance holds the lock; waiting for it", "lock", s.name)
			}
			waiting = true
		case hard.Err() != nil:
		case sdkerr.Text(err) != failing: // A repeated error is logged once.
			failing = sdkerr.Text(err)
			s.log.Error("acquiring the lock failed; retrying", "lock", s.name, "err", sdkerr.Short(err))
		}
		s.pause(soft, s.retry)
	}
}

// hold calls work and renews the lock until work returns.
func (s *singleton) hold(soft, hard context.Context, id string, expires time.Time,
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
		ctx, cancel := context.WithTimeout(context.WithoutCancel(hard), settleTimeout)
		defer cancel()
		if err := s.store.release(ctx, s.name, id); err != nil && !errors.Is(err, errNotHeld) {
			s.log.Warn("releasing the lock failed; it expires", "lock", s.name, "err", sdkerr.Short(err))
		}
		return
	}
	s.log.Warn("lost the lock; stopping its function", "lock", s.name)
	stopSoft(ErrLeaseLost)
	stopHard(ErrLeaseLost)
	<-done
}

// renewUntil renews the lock until done is closed. It returns false if the lock is lost before.
func (s *singleton) renewUntil(done <-chan struct{}, id string, expires time.Time) bool {
	interval := s.period / 2
	for {
		timer := s.clock.NewTimer(interval)
		select {
		case <-done:
			timer.Stop()
			return true
		case <-timer.C():
		}
		now := s.clock.Now()
		most := max(expires.Sub(now), time.Millisecond)
		if _, ok := s.clock.(systemClock); !ok {
			most = settleTimeout // A fake clock can advance by an hour during the request.
		}
		ctx, cancel := context.WithTimeout(context.Background(), most)
		err := s.store.renew(ctx, s.name, id)
		cancel()
		switch left := expires.Sub(s.clock.Now()); {
		case err == nil:
			expires, interval = now.Add(s.period), s.period/2
		case errors.Is(err, errNotHeld), left <= 0:
			return false
		default:
			interval = min(max(interval/2, time.Second), left)
		}
	}
}

func (s *singleton) pause(ctx context.Context, d time.Duration) {
	timer := s.clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
	case <-ctx.Done():
	}
}
