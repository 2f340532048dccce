package ratelimit

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

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"

	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/sdk/sdkerr"
	"github.com/lazuli-storage/lazuli/workers/internal/calls"
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
	rate    Limit
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

func newLimiter(store *rateStore, id, key string, rate Limit, horizon time.Duration) *limiter {
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

// Limits are the limits of a function on this instance.
type Limits struct {
	store    *rateStore
	clock    calls.Clock
	log      *slog.Logger
	function *limiter     // nil without WithRateLimit
	keyRate  *Limit       // nil without WithRateLimitPerKey
	held     atomic.Int64 // messages that wait for their time
	full     atomic.Bool  // the function waits until it may receive again

	mu     sync.Mutex // guards the rest
	keys   map[string]*limiter
	failed string // the last error that was logged
	swept  time.Time
}

// Settings are the limits of a function.
type Settings struct {
	Rate, KeyRate *Limit // of the function and of each key; nil: not limited
}

// New returns nil for a function without limits. The rows of a function have its name, which is unique in the
// account.
func New(service *aztables.ServiceClient, function string, s Settings, clock calls.Clock,
	log *slog.Logger) (*Limits, error) {
	if s.Rate == nil && s.KeyRate == nil {
		return nil, nil
	}
	store, err := newRateStore(service, function, clock)
	if err != nil {
		return nil, err
	}
	l := &Limits{store: store, clock: clock, log: log, keyRate: s.KeyRate, keys: map[string]*limiter{}}
	if s.Rate != nil {
		l.function = newLimiter(store, rateOfFunction, "", *s.Rate, 0)
	}
	return l, nil
}

// Most waits until the function may receive messages and returns how many, at most n. It returns 0 once soft is done.
func (l *Limits) Most(soft context.Context, n int, batch bool) int {
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

// PerKey reports whether each key has a limit.
func (l *Limits) PerKey() bool { return l != nil && l.keyRate != nil }

// Admit returns when the handler of a message may be called, which was put back that often. The calls of batches count
// in AdmitBatch; a message without a key is not limited by key. The error is ErrNotBegun, or says that the message is
// to be put back.
func (l *Limits) Admit(ctx, soft context.Context, key string, putBack int64, batch bool) error {
	if l == nil {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// A soft stop ends the wait: the message has not begun and can be given back.
	defer context.AfterFunc(soft, cancel)()
	if l.keyRate != nil && key != "" {
		wait, err := l.pass(ctx, l.keyed(key), 1)
		if err != nil {
			return err
		}
		// A key whose rate is used up must not hold a place of the function: the message goes back with a delay, and
		// others pass.
		if !wait.IsZero() {
			return &calls.PutBackError{Until: wait, Count: putBack + 1}
		}
	}
	if l.function != nil && !batch {
		_, err := l.pass(ctx, l.function, 1)
		return err
	}
	return nil
}

// AdmitBatch returns when the call for a number of messages may begin.
func (l *Limits) AdmitBatch(ctx, soft context.Context, messages int) error {
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
func (l *Limits) pass(ctx context.Context, of *limiter, messages int) (wait time.Time, err error) {
	l.held.Add(int64(messages))
	defer l.held.Add(-int64(messages))
	for {
		start, wait, err := of.take(ctx)
		switch {
		case ctx.Err() != nil:
			return time.Time{}, calls.ErrNotBegun
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
			return time.Time{}, calls.ErrNotBegun
		}
		if l.store.now().Sub(due) <= rateLeeway {
			return time.Time{}, nil
		}
		// The process was stopped, or the machine is slow: calls that had gathered would begin together.
	}
}

// PutBack returns how often a message was put back that the service has delivered so often. The error is ErrNotBegun.
func (l *Limits) PutBack(ctx, soft context.Context, id string, deliveries int64) (n int64, err error) {
	if deliveries <= 1 {
		return 0, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(soft, cancel)()
	for {
		if n, err = l.store.putBack(ctx, id); err == nil {
			return n, nil
		}
		l.report(ctx, err)
		if sleep(ctx, l.clock, ratePause) != nil {
			return 0, calls.ErrNotBegun
		}
	}
}

// keyed returns the limiter of a key.
func (l *Limits) keyed(key string) *limiter {
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
func (l *Limits) sweep(ctx context.Context) {
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
func (l *Limits) report(ctx context.Context, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if text := sdkerr.Text(err); ctx.Err() == nil && text != l.failed {
		l.failed = text
		l.log.Error("the rate limit cannot be read or written; no call begins until it can", "err", sdkerr.Short(err))
	}
}

// Blocked reports whether all messages in flight wait for their times.
func (l *Limits) Blocked(inFlight int64) bool {
	return l != nil && (inFlight > 0 && l.held.Load() >= inFlight || inFlight == 0 && l.full.Load())
}

// Postpone notes that a message is put back, before it is.
func (l *Limits) Postpone(ctx context.Context, id string, e *calls.PutBackError) error {
	return l.store.count(ctx, id, e.Count, e.Until)
}

// Until returns how long a message stays away that is put back.
func (l *Limits) Until(e *calls.PutBackError) time.Duration { return max(l.store.until(e.Until), 0) }

// Forget deletes the row of a message that was put back and is settled.
func (l *Limits) Forget(ctx context.Context, id string) error { return l.store.forget(ctx, id) }

// later returns the later one of two times.
func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// sleep waits for d, or returns the error of ctx.
func sleep(ctx context.Context, clock calls.Clock, d time.Duration) error {
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
