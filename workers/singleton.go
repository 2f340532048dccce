package workers

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/lazuli-storage/lazuli/internal/sdk/sdkerr"
)

// singleton lets one instance at a time do something, by a lock with an end: a blob lease.
//
// The storage service is the authority. An instance may believe to hold the lock only until the period since the start of its
// last successful renewal is over, by its own clock; then it stops what it does, whether or not it could ask. Another
// instance can have the lock from then on, by the service's clock. Between two clocks of different speed, and while a
// handler does not react to its cancelled context, two instances can be at work for a moment: a handler must bear that.
type singleton struct {
	store  hostStore
	name   string
	owner  string
	period time.Duration // of the lock; renewed at half
	retry  time.Duration // between tries to get it
	clock  Clock
	log    *slog.Logger

	elsewhere atomic.Bool // another instance had the lock when it was last asked for
}

// lead waits for the lock, calls work while it is held, and begins again when it is lost, until soft is done. The contexts that
// work gets are done like lead's own, and also, with the cause ErrLeaseLost, when the lock is lost. The lock is renewed until
// work returns, and then released.
func (s *singleton) lead(soft, hard context.Context, work func(soft, hard context.Context)) {
	failing, waiting := "", false // what was logged last
	for soft.Err() == nil {
		asked := s.clock.Now()
		id, err := s.store.acquire(hard, s.name, s.owner, s.period)
		s.elsewhere.Store(errors.Is(err, errHeldByOther))
		switch {
		case err == nil:
			if waiting {
				s.log.Info("this instance holds the lock now", "lock", s.name)
			}
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
		case sdkerr.Text(err) != failing: // Once for as long as it lasts.
			failing = sdkerr.Text(err)
			s.log.Error("cannot ask for the lock; trying on", "lock", s.name, "err", sdkerr.Short(err))
		}
		s.pause(soft, s.retry)
	}
}

// hold calls work and renews the lock until it returns.
func (s *singleton) hold(soft, hard context.Context, id string, expires time.Time, work func(soft, hard context.Context)) {
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
			s.log.Warn("cannot release the lock; it ends by itself", "lock", s.name, "err", sdkerr.Short(err))
		}
		return
	}
	s.log.Warn("the lock is lost; stopping what it guards", "lock", s.name)
	stopSoft(ErrLeaseLost)
	stopHard(ErrLeaseLost)
	<-done
}

// renewUntil renews until done is closed, and then returns true; false if the lock is lost before.
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
			most = settleTimeout // A test's clock may go an hour ahead at once; no request is that fast.
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
