package replog

import (
	"context"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/lazuli-storage/lazuli/internal/schedule"
)

// Everything in this package that waits, takes the time or starts a goroutine does so by the functions of this file,
// which ask package schedule, and reaches the servers by the interface of servers.go. A simulation can replace both.

// forever is a wait without a limit.
const forever time.Duration = 1<<63 - 1

// woke says why a wait has ended.
type woke int

const (
	byTime    woke = iota
	byMessage      // of the channel
	byDone
	byClose // of the log
)

// waitFor returns once a message comes, done is closed, the log is closed or d is over.
func waitFor[T any](l *Log, d time.Duration, in <-chan T, done <-chan struct{}) (message T, why woke) {
	if s := l.config.schedule; s != nil {
		s.Park(d, func() bool { return len(in) > 0 || closed(done) || l.life.Err() != nil })
		d = 0 // what has come in time is there now
	}
	// In an order, since a select would choose by chance; and the usual case needs no timer.
	select {
	case message = <-in:
		return message, byMessage
	default:
	}
	switch {
	case closed(done):
		return message, byDone
	case l.life.Err() != nil:
		return message, byClose
	case d <= 0:
		return message, byTime
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case message = <-in:
		return message, byMessage
	case <-done:
		return message, byDone
	case <-l.life.Done():
		return message, byClose
	case <-timer.C:
		return message, byTime
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// sleep waits. It returns false if ctx ends before.
func (l *Log) sleep(ctx context.Context, d time.Duration) bool {
	return schedule.Sleep(ctx, l.config.schedule, d)
}

// pause waits; it returns false if the log was closed.
func (l *Log) pause(d time.Duration) bool { return l.sleep(l.life, d) }

func (l *Log) now() time.Time { return schedule.Now(l.config.schedule) }

func (l *Log) random() uint64 { return schedule.Random(l.config.schedule) }

// inbox returns a subject that no other call uses.
func (l *Log) inbox() string {
	if s := l.config.schedule; s != nil {
		return "_INBOX." + strconv.FormatUint(s.Random(), 36)
	}
	return nats.NewInbox()
}

// within returns a context that ends after d. In a simulation it does not: what waits there has the limits of the
// servers' model.
func (l *Log) within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if l.config.schedule != nil {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, d)
}

// spawn starts a goroutine.
func (l *Log) spawn(f func()) { schedule.Go(l.config.schedule, f) }

// together calls f with 0 to n-1, for some of them at a time, until one call fails.
func (l *Log) together(ctx context.Context, n, limit int, f func(ctx context.Context, i int) error) error {
	if l.config.schedule != nil {
		for i := range n {
			if err := f(ctx, i); err != nil {
				return err
			}
		}
		return nil
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(limit)
	for i := 0; i < n && ctx.Err() == nil; i++ {
		g.Go(func() error { return f(ctx, i) })
	}
	return g.Wait()
}
