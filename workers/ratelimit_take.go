package workers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/sdk/sdkerr"
)

const (
	// rateHorizon is how far ahead times are reserved: a message whose time is later is not received, or put back.
	rateHorizon = time.Second
	// rateLeeway is how late a call may begin after its time.
	rateLeeway = 250 * time.Millisecond
	// ratePause is the pause after an error of the table.
	ratePause = time.Second
	// maxLimiters is the number of keys whose rows an instance remembers.
	maxLimiters = 1000
)

// limiter reserves times from one row, for all callers of this instance.
type limiter struct {
	store   *rateStore
	rate    Rate
	horizon time.Duration // see bucket.grant
	serving chan struct{} // has a token while no request is under way

	mu      sync.Mutex // guards the rest
	row     rateRow
	known   bool // row was read; another instance may have changed it since
	waiting []*taking
}

// taking is a caller that waits for its time.
type taking struct {
	done        chan struct{}
	start, wait time.Time // one of them is set once done is closed
}

func newLimiter(store *rateStore, id, key string, rate Rate, horizon time.Duration) *limiter {
	l := &limiter{store: store, rate: rate, horizon: horizon, serving: make(chan struct{}, 1),
		row: rateRow{Function: store.function, ID: id, Key: key}}
	l.serving <- struct{}{}
	return l
}

// take reserves a time for a call. If it would come too late, start is zero, and wait is when to try again. One caller
// sends the request for all that wait. An error means that ctx is done, or that the table cannot be used now.
func (l *limiter) take(ctx context.Context) (start, wait time.Time, err error) {
	t := &taking{done: make(chan struct{})}
	l.mu.Lock()
	l.waiting = append(l.waiting, t)
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.waiting = slices.DeleteFunc(l.waiting, func(other *taking) bool { return other == t })
	}()
	select {
	case <-t.done:
		return t.start, t.wait, nil
	case <-ctx.Done():
		return t.start, t.wait, ctx.Err()
	case <-l.serving:
	}
	defer func() { l.serving <- struct{}{} }()
	select {
	case <-t.done: // by the request that was under way
		return t.start, t.wait, nil
	default:
	}
	err = l.serve(ctx)
	return t.start, t.wait, err
}

// serve reserves times for all that wait. The row is written on condition of its ETag before any of them goes on:
// a time is given once, by whichever instance. Only the caller that has the token of serving calls it.
func (l *limiter) serve(ctx context.Context) error {
	for try := 0; ; try++ {
		row, err := l.current(ctx)
		if err != nil {
			return err
		}
		l.mu.Lock()
		list := slices.Clone(l.waiting)
		l.mu.Unlock()
		after, starts, waits := bucket{row.Next, row.Line}.grant(l.rate, l.store.now(), len(list), l.horizon)
		row.Next, row.Line = after.next, later(after.line, after.next.Add(-l.rate.interval()))
		changed, err := l.store.write(ctx, &row)
		if err == nil && !changed {
			err = fault.Point(pointRateTaken)
		}
		l.mu.Lock()
		l.row, l.known = row, err == nil && !changed
		l.mu.Unlock()
		switch {
		case err != nil:
			return err
		case changed:
			// Instances that met once would meet again without a pause.
			if err := sleep(ctx, l.store.clock, rand.N(time.Duration(min(try+1, 20))*5*time.Millisecond)); err != nil {
				return err
			}
			continue
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		for i, t := range list {
			if i < len(starts) {
				t.start = starts[i]
			} else {
				t.wait = waits[i-len(starts)]
			}
			close(t.done)
		}
		l.waiting = slices.DeleteFunc(l.waiting, func(t *taking) bool { return slices.Contains(list, t) })
		return nil
	}
}

// current returns the row as far as it is known, and reads it if it is not.
func (l *limiter) current(ctx context.Context) (rateRow, error) {
	l.mu.Lock()
	row, known := l.row, l.known
	l.mu.Unlock()
	if known {
		return row, nil
	}
	got, err := l.store.read(ctx, row.ID)
	if err != nil {
		return row, err
	}
	got.Key = row.Key
	l.mu.Lock()
	defer l.mu.Unlock()
	l.row, l.known = got, true
	return got, nil
}

// room returns how many calls may begin within the horizon, less those that wait already, and otherwise when to look
// again. What it knows of other instances may be old: they can only have made it less.
func (l *limiter) room(ctx context.Context) (n int, again time.Time, err error) {
	row, err := l.current(ctx)
	if err != nil {
		return 0, time.Time{}, err
	}
	l.mu.Lock()
	waiting := len(l.waiting)
	l.mu.Unlock()
	n = bucket{next: row.Next}.within(l.rate, l.store.now(), rateHorizon) - waiting
	if n < 1 {
		again = row.Next.Add(l.rate.interval()*time.Duration(waiting) - rateHorizon)
	}
	return n, again, nil
}

func (l *limiter) busy() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.waiting) > 0
}

// rateLimits are the limits of a function on this instance.
type rateLimits struct {
	store    *rateStore
	clock    Clock
	log      *slog.Logger
	function *limiter // nil without WithRateLimit
	keyRate  *Rate    // nil without WithRateLimitPerKey
	keyOf    func(body []byte) string
	held     atomic.Int64 // messages that wait for their time
	full     atomic.Bool  // the function waits until it may receive again

	mu     sync.Mutex // guards the rest
	keys   map[string]*limiter
	failed string // the last error that was logged
	swept  time.Time
}

// newRateLimits returns nil for a function without limits.
func newRateLimits(a *App, f *Function, storage *Storage, log *slog.Logger) (*rateLimits, error) {
	s := &f.settings
	if s.rate == nil && s.keyRate == nil {
		return nil, nil
	}
	store, err := newRateStore(storage.Tables, a.config.HostID+":"+f.name, a.config.Clock)
	if err != nil {
		return nil, err
	}
	l := &rateLimits{store: store, clock: a.config.Clock, log: log, keyRate: s.keyRate, keyOf: s.rateKey,
		keys: map[string]*limiter{}}
	if s.rate != nil {
		l.function = newLimiter(store, rateOfFunction, "", *s.rate, 0)
	}
	return l, nil
}

// most waits until the function may receive messages and returns how many, at most n. It returns 0 once soft is done.
func (l *rateLimits) most(soft context.Context, n int, batch bool) int {
	if l == nil {
		return n
	}
	l.sweep(soft)
	if l.function == nil {
		return n
	}
	defer l.full.Store(false)
	for soft.Err() == nil {
		room, again, err := l.function.room(soft)
		switch {
		case err != nil:
			l.report(soft, err)
			_ = sleep(soft, l.clock, ratePause)
		case room > 0 && batch: // all of them are one call
			return n
		case room > 0:
			return min(n, room)
		default:
			wait := l.store.until(again)
			l.full.Store(wait > 0)
			// Without a minimum, takers that have not been served yet would make this a busy loop.
			_ = sleep(soft, l.clock, max(wait, time.Millisecond))
		}
	}
	return 0
}

// admit returns when the handler of a message may be called. The error is errNotBegun, or says that the message is to
// be put back.
func (l *rateLimits) admit(ctx, soft context.Context, d *delivery) error {
	if l == nil {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// A soft stop ends the wait: the message has not begun and can be given back.
	defer context.AfterFunc(soft, cancel)()
	if l.keyRate != nil {
		putBack, err := l.putBack(ctx, d)
		if err != nil {
			return err
		}
		if key := l.keyOf(d.body); key != "" {
			wait, err := l.pass(ctx, l.keyed(key), 1)
			if err != nil {
				return err
			}
			// A key whose rate is used up must not hold a place of the function: the message goes back with a delay, and
			// others pass.
			if !wait.IsZero() {
				return &putBackError{wait, putBack + 1}
			}
		}
	}
	if l.function != nil && d.batch == nil {
		_, err := l.pass(ctx, l.function, 1)
		return err
	}
	return nil
}

// admitBatch returns when the call for a number of messages may begin.
func (l *rateLimits) admitBatch(ctx, soft context.Context, messages int) error {
	if l == nil || l.function == nil {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(soft, cancel)()
	_, err := l.pass(ctx, l.function, messages)
	return err
}

// pass waits for a time of a limit, for a number of messages, or returns when to try again.
func (l *rateLimits) pass(ctx context.Context, limit *limiter, messages int) (wait time.Time, err error) {
	l.held.Add(int64(messages))
	defer l.held.Add(-int64(messages))
	for {
		start, wait, err := limit.take(ctx)
		switch {
		case ctx.Err() != nil:
			return time.Time{}, errNotBegun
		case err != nil:
			// No call begins without the table's answer, since it could pass the limit.
			l.report(ctx, err)
			_ = sleep(ctx, l.clock, ratePause)
			continue
		case !wait.IsZero():
			return wait, nil
		}
		due := later(start, l.store.now())
		if sleep(ctx, l.clock, l.store.until(start)) != nil {
			return time.Time{}, errNotBegun
		}
		if l.store.now().Sub(due) <= rateLeeway {
			return time.Time{}, nil
		}
		// The process was stopped, or the machine is slow: calls that had gathered would begin together.
	}
}

// putBack sets the attempt of a message, from its deliveries and how often it was put back, and returns the latter.
func (l *rateLimits) putBack(ctx context.Context, d *delivery) (n int64, err error) {
	if d.message.dequeueCount > 1 {
		for {
			if n, err = l.store.putBack(ctx, d.message.id); err == nil {
				break
			}
			l.report(ctx, err)
			if sleep(ctx, l.clock, ratePause) != nil {
				return 0, errNotBegun
			}
		}
	}
	attempt := max(d.message.dequeueCount-n, 1)
	d.attempt.Store(attempt)
	d.putBack.Store(n)
	if most := d.l.settings.maxDequeueCount; attempt > most {
		return n, Permanent(fmt.Errorf("received %d times, more than the maximum of %d", attempt, most))
	}
	return n, nil
}

// keyed returns the limiter of a key.
func (l *rateLimits) keyed(key string) *limiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	if have := l.keys[key]; have != nil {
		return have
	}
	if len(l.keys) >= maxLimiters {
		// What they know is in their rows.
		for k, other := range l.keys {
			if !other.busy() {
				delete(l.keys, k)
			}
		}
	}
	text := key
	if len(text) > 200 {
		text = text[:200]
	}
	l.keys[key] = newLimiter(l.store, plainKey(rateOfKeyPrefix, key), fmt.Sprintf("%q", text), *l.keyRate, rateHorizon)
	return l.keys[key]
}

// sweep deletes old rows once an hour.
func (l *rateLimits) sweep(ctx context.Context) {
	now := l.clock.Now()
	l.mu.Lock()
	due := l.keyRate != nil && now.Sub(l.swept) >= sweepEvery
	if due {
		l.swept = now
	}
	l.mu.Unlock()
	if !due {
		return
	}
	burst := l.keyRate.interval() * time.Duration(max(l.keyRate.Burst, 1))
	if err := l.store.sweep(ctx, burst); err != nil {
		l.report(ctx, err)
	}
}

// report logs an error of the table, a repeated one once.
func (l *rateLimits) report(ctx context.Context, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if text := sdkerr.Text(err); ctx.Err() == nil && text != l.failed {
		l.failed = text
		l.log.Error("the rate limit cannot be read or written; no call begins until it can", "err", sdkerr.Short(err))
	}
}

// blocked reports whether all messages in flight wait for their times.
func (l *rateLimits) blocked(inFlight int64) bool {
	return l != nil && (inFlight > 0 && l.held.Load() >= inFlight || inFlight == 0 && l.full.Load())
}

// putBackError means that a message could not begin within the limit of its key.
type putBackError struct {
	until time.Time // of the service
	count int64     // with this one
}

func (e *putBackError) Error() string {
	return "workers: put back: the rate limit of its key is reached"
}

// putBack puts a message back until its time, without an attempt.
func (d *delivery) putBackUntil(ctx context.Context, e *putBackError) error {
	limits := d.l.limits
	if err := limits.store.count(ctx, d.message.id, e.count, e.until); err != nil {
		return err
	}
	if _, err := d.l.queue.update(ctx, d.message, max(limits.store.until(e.until), 0)); err != nil {
		return err
	}
	return fault.Point(pointRatePostponed)
}

// later returns the later one of two times.
func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// sleep waits for d, or returns the error of ctx.
func sleep(ctx context.Context, clock Clock, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
		return nil
	case <-ctx.Done():
		return errors.Join(ctx.Err())
	}
}
