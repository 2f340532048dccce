package durable

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"github.com/lazuli-storage/lazuli/workers/durable/internal/replay"
)

// Context lets a workflow call activities and other workflows, and wait for timers and events. It belongs to the
// workflow's goroutine. The functions of this package that take it have types for results, and wait for them: [Call],
// [CallWorkflow], [CallEntity], [WaitForEvent]. The methods of these names return a [Task], for [Await], [WhenAll] and
// [Context.WhenAny].
//
// A workflow that has to wait is left where it stands, and runs again from its beginning when what it waits for is
// there. Its deferred functions run then, and what they ask for has no effect; recover does not stop it.
type Context struct {
	// ID is the instance's ID, Name the workflow's name.
	ID, Name string
	// Version is the version that the workflow was started with; empty without one.
	Version string
	// CurrentTimeUtc is the time of the step: the same in each replay, other than time.Now.
	CurrentTimeUtc time.Time
	// IsReplaying says that the code runs through what an earlier step has done already.
	IsReplaying bool

	run    *replay.Execution
	locks  int  // critical sections that the execution has begun
	locked bool // whether one of them has not ended
}

// newContext returns the context of an execution, which keeps its time up to date.
func newContext(x *replay.Execution, id, name, version string) *Context {
	c := &Context{ID: id, Name: name, Version: version, run: x}
	x.Observe = func() { c.CurrentTimeUtc, c.IsReplaying = x.Now(), x.Replaying() }
	x.Observe()
	return c
}

// GetInput decodes the workflow's input, JSON, into v. Without an input it leaves v alone.
func (c *Context) GetInput(v any) error {
	if in := c.run.Input(); in != nil && *in != "" {
		return json.Unmarshal([]byte(*in), v)
	}
	return nil
}

// SetCustomStatus sets the status that clients see beside that of the engine, as JSON.
func (c *Context) SetCustomStatus(status string) { c.run.SetCustomStatus(status) }

// NewUUID returns an ID that is the same in each replay, and different in each call.
func (c *Context) NewUUID() uuid.UUID { return c.run.NewUUID() }

// Logger returns a logger that writes each line of the workflow once: what runs again is left out.
func (c *Context) Logger(log *slog.Logger) *slog.Logger {
	return slog.New(onceHandler{log.Handler(), c})
}

// onceHandler is a handler that is silent while a workflow is replayed.
type onceHandler struct {
	slog.Handler
	c *Context
}

// Enabled implements slog.Handler.
func (h onceHandler) Enabled(ctx context.Context, l slog.Level) bool {
	return !h.c.IsReplaying && h.Handler.Enabled(ctx, l)
}

// WithAttrs implements slog.Handler.
func (h onceHandler) WithAttrs(a []slog.Attr) slog.Handler {
	return onceHandler{h.Handler.WithAttrs(a), h.c}
}

// WithGroup implements slog.Handler.
func (h onceHandler) WithGroup(name string) slog.Handler {
	return onceHandler{h.Handler.WithGroup(name), h.c}
}

// Task is work that a workflow waits for: an activity, another workflow, a timer, an event, or an entity's operation.
type Task interface {
	// Await waits for the end, and decodes the result, JSON, into v, which may be nil.
	Await(v any) error
	// Ended reports whether Await returns without waiting.
	Ended() bool
}

// CallOption is an option of a call of an activity or another workflow, or of [Context.ContinueAsNew].
type CallOption func(*callOptions)

type callOptions struct {
	input    *string
	instance string
	retry    *RetryPolicy
	keep     bool // of ContinueAsNew
	err      error
}

// WithInput is the input of a call, which is written as JSON; nil for none. Functions with a parameter for the input
// need no such option.
func WithInput(in any) CallOption {
	return func(o *callOptions) { o.input, o.err = inputOf(in) }
}

// WithInstanceID is the ID of the instance that a call of another workflow starts. Default: one that is derived from
// the caller's.
func WithInstanceID(id string) CallOption { return func(o *callOptions) { o.instance = id } }

// WithRetry makes a call again when it has failed, as the policy says.
func WithRetry(p RetryPolicy) CallOption { return func(o *callOptions) { o.retry = &p } }

// inputOf returns a value's JSON; nil for nil.
func inputOf(in any) (*string, error) {
	if in == nil {
		return nil, nil
	}
	b, err := json.Marshal(in)
	text := string(b)
	return &text, err
}

// CallActivity begins an activity.
func (c *Context) CallActivity(name string, options ...CallOption) Task {
	return c.call(options, func(o callOptions) Task { return c.run.Activity(name, o.input) })
}

// CallSubOrchestrator begins another workflow as part of this one.
func (c *Context) CallSubOrchestrator(name string, options ...CallOption) Task {
	return c.call(options, func(o callOptions) Task { return c.run.Workflow(name, o.instance, o.input) })
}

// call begins a task by its options.
func (c *Context) call(options []CallOption, begin func(callOptions) Task) Task {
	var o callOptions
	for _, set := range options {
		set(&o)
		if o.err != nil {
			return replay.FailedTask(o.err)
		}
	}
	if o.keep {
		return replay.FailedTask(fmt.Errorf("%w: KeepEvents is an option of ContinueAsNew", ErrBadRequest))
	}
	if o.retry == nil {
		return begin(o)
	}
	p, err := o.retry.withDefaults()
	if err != nil {
		return replay.FailedTask(err)
	}
	again := func() Task { return begin(o) }
	return &retried{ctx: c, policy: p, begin: again, last: again(), began: c.CurrentTimeUtc}
}

// Sleep waits for d, however long.
func (c *Context) Sleep(d time.Duration) error { return c.CreateTimer(d).Await(nil) }

// CreateTimer begins a timer that ends after d, however long.
func (c *Context) CreateTimer(d time.Duration) Task { return c.run.Timer(d) }

// WaitForSingleEvent begins to wait for an event of the name, whose case has no meaning. Each event ends one task,
// that which has waited longest. A negative timeout means no limit; 0 takes only an event that is there already. After
// the timeout, Await returns ErrTimeout.
func (c *Context) WaitForSingleEvent(name string, timeout time.Duration) Task {
	return c.run.Event(name, timeout)
}

// KeepEvents is an option of [Context.ContinueAsNew]: it hands on the events that the workflow has received and not
// waited for.
func KeepEvents() CallOption { return func(o *callOptions) { o.keep = true } }

// ContinueAsNew makes the workflow begin again with an input, and with an empty history, once its function has returned
// without an error. [KeepEvents] is its one option; it panics with another.
func (c *Context) ContinueAsNew(in any, options ...CallOption) {
	var o callOptions
	for _, set := range options {
		set(&o)
	}
	if keep := o.keep; o != (callOptions{keep: keep}) {
		panic("durable: ContinueAsNew takes the option KeepEvents alone")
	}
	c.run.ContinueAsNew(in, o.keep)
}

// WhenAny waits until one of the tasks has ended and returns its index; its result or error is then at hand by
// [Await]. If several have ended, it returns the first of them in the order of the arguments. A task with a retry
// policy counts as ended after its first attempt: Await makes the others. It panics without tasks.
func (c *Context) WhenAny(tasks ...Task) int {
	if len(tasks) == 0 {
		panic("durable: WhenAny without tasks")
	}
	for {
		// All tasks are looked at after each single event: so every replay finds the same one first.
		for i, t := range tasks {
			if t.Ended() {
				return i
			}
		}
		c.run.Wait()
	}
}
