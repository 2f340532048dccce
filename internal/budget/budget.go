// Package budget bounds the work of one request: the time that its evaluation takes, and the bytes of its answer.
//
// The work is spent where it is done: a loop calls [Work.Spend] for what it is about to do, in units of about 5 ns. A
// step of 16,384 units, which is far below 100 ms, ends with a look at the clock and at the request's context, so that
// a request stops within one step of the end of its budget, or of its client. An operation that takes longer than its
// operands show, such as the remainder of two distant floats, spends what it takes.
//
// What a request does when its budget ends depends on the operation. A listing or a query of entities ends its page,
// with a continuation. Everything else fails with [ErrExhausted], which the front-end answers with OperationTimedOut,
// as Azure does for an operation that does not end in the permitted time:
// https://learn.microsoft.com/rest/api/storageservices/setting-timeouts-for-blob-service-operations
package budget

import (
	"context"
	"errors"
	"time"
)

// The limits of requests.
const (
	// Request is the time of work of a request.
	Request = 5 * time.Second
	// PerMiB is the time of work that a request has in addition for each MiB of stored content that it reads: a query of
	// an ordinary CSV file takes 20 ms.
	PerMiB = time.Second
	// FirstByte is the time after which an answer that is still computed has to begin. Clients give up after 30 s or more.
	FirstByte = 10 * time.Second
	// Answer is the size in bytes at which a page of a listing ends: the item that reaches it is its last.
	Answer = 4 << 20
)

const (
	// step is the number of units between two looks at the clock.
	step = 1 << 14
	// longest is the most that one step is charged: a step that took longer waited, for a processor or for the memory's
	// collector.
	longest = 100 * time.Millisecond
	// least is the least that a unit is charged, such as a byte of output, which is copied faster.
	least = time.Nanosecond
)

// ErrExhausted means that a request needs more work than it may cause.
var ErrExhausted = errors.New("budget: the request needs more work than it may cause")

// EndsPage reports whether err ends the page of an operation that has pages: the work, or the time that the request
// gives, is at its end.
func EndsPage(err error) bool {
	return errors.Is(err, ErrExhausted) || errors.Is(err, context.DeadlineExceeded)
}

// Work is the work that a request may still do. It belongs to one goroutine. A nil Work is not limited.
type Work struct {
	ctx   context.Context
	now   func() time.Time
	left  time.Duration
	mark  time.Time // the end of what was charged
	units int       // until the next look at the clock

	turns   *Turns // nil: it takes no turns
	account string
	running time.Duration // since the request began, or got its turn
	due     bool          // a turn is taken before the first step
	holds   bool          // a processor of turns
	counted bool          // among the requests of the account that compute
}

// Share lets the work take turns with that of other accounts. [Work.Done] must be called at its end.
func (w *Work) Share(t *Turns, account string) {
	w.turns, w.account = t, account
	// A page may be a single step. So the requests of a crowd take their turns before it: those of another account would
	// wait behind a step of every one of them.
	if t.present.besides(account, w.mark) {
		w.due, w.units = true, 0
	}
}

// Done ends the work. It may be called twice.
func (w *Work) Done() {
	if w == nil {
		return
	}
	w.giveUp()
	if w.counted {
		w.counted = false
		w.turns.end(w.account)
	}
}

func (w *Work) giveUp() {
	if w.holds {
		w.holds = false
		w.turns.give()
	}
}

// Pause gives the processor up until the next step, such as for sending an answer to a slow client.
func (w *Work) Pause() {
	if w == nil {
		return
	}
	if w.holds {
		w.running = before
	}
	w.Done()
}

// takeTurn waits for the turn of a request that has computed for some time, and lets others have theirs.
func (w *Work) takeTurn() error {
	if !w.counted {
		w.counted = true
		w.turns.begin(w.account)
	}
	beside := w.turns.present.besides(w.account, w.now())
	switch {
	case w.holds && (w.running < turn || !w.turns.contended()):
		if beside {
			network.yield()
		}
		return nil
	case w.holds:
		w.giveUp()
	case w.running < before && !(beside && w.turns.crowded(w.account)):
		return nil
	}
	at := w.now()
	err := w.turns.take(w.ctx, w.account)
	w.mark = w.mark.Add(w.now().Sub(at))
	w.holds, w.running = err == nil, 0
	return err
}

// New returns the work of a request that ends with ctx: limit of time, and what [Work.Read] adds.
func New(ctx context.Context, limit time.Duration) *Work { return newWork(ctx, limit, time.Now) }

func newWork(ctx context.Context, limit time.Duration, now func() time.Time) *Work {
	return &Work{ctx: ctx, now: now, left: limit, mark: now(), units: step}
}

// Spend charges n units of work, of about 5 ns each. It returns [ErrExhausted] at the end of the budget, and the cause
// of the context's end.
func (w *Work) Spend(n int) error {
	if w == nil {
		return nil
	}
	if w.units -= n; w.units > 0 {
		return nil
	}
	return w.Check()
}

// Check looks at the clock and at the context, for work that is not counted in units. Its errors are those of
// [Work.Spend].
func (w *Work) Check() error {
	if w == nil {
		return nil
	}
	now := w.now()
	if w.due {
		// Nothing was done yet, so nothing is charged: the work would end before its first step, and a page without an
		// item, time and again.
		w.due, w.units, w.mark = false, step, now
		if w.ctx.Err() != nil {
			return context.Cause(w.ctx)
		}
		return w.takeTurn()
	}
	spent := max(min(now.Sub(w.mark), longest), time.Duration(step-w.units)*least)
	w.left -= spent
	w.units = step
	w.mark = now
	if w.ctx.Err() != nil {
		return context.Cause(w.ctx)
	}
	if w.left < 0 {
		return ErrExhausted
	}
	if w.turns == nil {
		return nil
	}
	w.running += spent
	return w.takeTurn()
}

// Read adds the time for n bytes of stored content that were read. It returns the cause of the context's end.
func (w *Work) Read(n int) error {
	if w == nil {
		return nil
	}
	w.left += time.Duration(n) * PerMiB >> 20
	if w.ctx.Err() != nil {
		return context.Cause(w.ctx)
	}
	return nil
}

// Seen returns the time at the last look at the clock.
func (w *Work) Seen() time.Time {
	if w == nil {
		return time.Time{}
	}
	return w.mark
}

// Wait runs f, which waits for the disk or for the client, without charging its time.
func (w *Work) Wait(f func() error) error {
	if w == nil {
		return f()
	}
	w.Pause()
	at := w.now()
	err := f()
	w.mark = w.mark.Add(w.now().Sub(at))
	return err
}
