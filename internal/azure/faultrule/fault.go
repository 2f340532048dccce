package faultrule

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// Header is the response header that names the rule which had an effect on the request.
const Header = "x-lazuli-fault"

// Fault is the effect of a rule on one request.
type Fault struct {
	rule  *Rule
	added time.Time // when the rule was added
	// limit is that of a throttle, partitions that of the entities of partitions.
	limit, partitions *limiter
	hit               func() // counts a throttled request
}

// Serve answers r: do runs the operation. It returns the error to render, as do does. It panics with
// [http.ErrAbortHandler] where the rule breaks the connection off.
func (f *Fault) Serve(r *wire.Request, do func() error) error {
	if f.limit != nil {
		return f.throttled(r, do)
	}
	f.mark(r)
	if err := sleep(r.HTTP.Context(), time.Duration(f.rule.Delay)); err != nil {
		return err
	}
	if f.rule.Error != "" {
		return f.failure(Errors[f.rule.Error])
	}
	if f.rule.Slow > 0 {
		r.HTTP.Body = &slowBody{ReadCloser: r.HTTP.Body, ctx: r.HTTP.Context(), rate: f.rule.Slow}
		r.Out = &slowWriter{ResponseWriter: r.Out, ctx: r.HTTP.Context(), rate: f.rule.Slow}
	}
	return f.disturb(r, do)
}

// disturb runs the operation with the rule's effect on the bodies or the connection.
func (f *Fault) disturb(r *wire.Request, do func() error) error {
	switch out := r.Out; {
	case f.rule.Secondary != nil:
		return f.rule.Secondary.serve(r, f.added, do)
	case f.rule.Unanswered:
		// The operation runs and its answer goes nowhere: the client cannot know that it was done.
		r.Out = &discard{header: out.Header()}
		_ = do()
		cut(out)
	case f.rule.Reset == "before":
		// cut panics with http.ErrAbortHandler, so the operation after the switch does not run.
		cut(out)
	case f.rule.Reset == "during":
		r.Out = &truncated{ResponseWriter: out, left: 1, end: cut}
	case f.rule.Reset == "after":
		err := do()
		// A refusal is not an answer to cut: the client should see it as it is.
		if err == nil {
			// What the server buffers would die with the connection, and "after" would be "before".
			_ = http.NewResponseController(out).Flush()
			cut(out)
		}
		return err
	case f.rule.Truncate != nil:
		r.Out = &truncated{ResponseWriter: out, left: *f.rule.Truncate, end: finish}
	case f.rule.Corrupt != nil && f.rule.CorruptRequest:
		r.HTTP.Body = &corruptBody{ReadCloser: r.HTTP.Body, at: *f.rule.Corrupt}
	case f.rule.Corrupt != nil:
		r.Out = &corruptWriter{ResponseWriter: out, at: *f.rule.Corrupt}
	}
	return do()
}

// mark names the rule in the response and for the log.
func (f *Fault) mark(r *wire.Request) {
	r.Fault = f.rule.Name
	r.Out.Header()[Header] = []string{f.rule.Name}
}

// failure is the error that the rule answers with.
func (f *Fault) failure(e *wire.Error) error {
	if f.rule.RetryAfter > 0 {
		e = e.WithHeader("Retry-After", strconv.FormatInt(int64(time.Duration(f.rule.RetryAfter)/time.Second), 10))
	}
	return e
}

// sleep waits for d, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
