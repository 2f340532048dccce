package durable

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/lazuli-storage/lazuli/workers"
)

// Workflow is the name of a workflow, with the types of its input and output for the compiler:
//
//	const PlaceOrder durable.Workflow[Order, Receipt] = "place-order"
//
// [Register] gives it its code, [Start] starts instances, and [Result] waits for one. A program that only starts
// instances needs the name and not the code.
type Workflow[In, Out any] string

// Register registers the code of a workflow with an app that has Config.Durable. Input and output are a Go value's
// JSON. The code runs again from its beginning at every step: it must be deterministic, take the time from
// Context.CurrentTimeUtc, and use activities for all effects. The name can be a literal:
//
//	durable.Register(app, "place-order", func(ctx *durable.Context, o Order) (Receipt, error) { ... })
func Register[In, Out any](app *workers.App, w Workflow[In, Out], f func(ctx *Context, in In) (Out, error),
	options ...workers.CommonOption) *workers.Function {
	return app.Orchestration(string(w), orchestratorOf(f), options...)
}

// ID is an option of [Start]: it names the instance that Start starts, and makes Start safe to repeat. A message or
// event that is handled twice starts one instance if the ID comes from it: the message's ID, or the number of the order
// in it. Default: a random ID, which makes another instance each time.
func ID(id string) func(*StartOptions) {
	return func(o *StartOptions) { o.InstanceID, o.same = id, true }
}

// Start starts an instance of a workflow with an input that is written as JSON, and returns its ID. c is
// [ClientFromContext] in a handler, and [Engine.WaitClient] elsewhere; if it is nil, Start returns ErrNoClient.
//
// An option sets fields of [StartOptions]: [ID], or a function of the caller, such as
// func(o *durable.StartOptions) { o.At = tomorrow }. Input is the input in JSON, whatever an option makes of it.
//
// With the option [ID], a second start of the workflow with the same ID is the same start: it returns the ID and
// changes nothing, whatever has become of the instance. An instance of another workflow with the ID is
// ErrInstanceExists. After any other error, the instance may have been started or not; the start can be repeated with
// the ID.
func Start[In, Out any](ctx context.Context, c *Client, w Workflow[In, Out], in In,
	options ...func(*StartOptions)) (string, error) {
	if c == nil {
		return "", ErrNoClient
	}
	text, err := json.Marshal(in)
	if err != nil {
		return "", fmt.Errorf("durable: start %q: the input: %w", string(w), err)
	}
	var o StartOptions
	for _, set := range options {
		set(&o)
	}
	o.Input = string(text)
	if o.same && o.InstanceID == "" {
		return "", fmt.Errorf("%w: start %q: the ID is empty", ErrBadRequest, string(w))
	}
	id, err := c.Start(ctx, string(w), o)
	if err != nil {
		return id, fmt.Errorf("durable: start %q: %w", string(w), err)
	}
	return id, nil
}

// FailedError says that a workflow has ended without an output.
type FailedError struct {
	// Instance is the instance, with its status, and its failure if it has failed.
	Instance *Instance
}

// Error implements error.
func (e *FailedError) Error() string {
	i := e.Instance
	text := fmt.Sprintf("durable: %q has ended as %s", i.ID, i.Status)
	if i.FailureMessage != "" {
		text += ": " + i.FailureMessage
	}
	return text
}

// Result waits until an instance has ended, and returns its output. It returns a *FailedError if the instance has not
// completed, ErrInstanceNotFound, and an error when ctx is done.
func Result[In, Out any](ctx context.Context, c *Client, w Workflow[In, Out], id string) (out Out, err error) {
	if c == nil {
		return out, ErrNoClient
	}
	i, err := c.Wait(ctx, id)
	if err != nil {
		return out, err
	}
	if i.Name != string(w) {
		return out, fmt.Errorf("%w: %q is an instance of %q, not of %q", ErrBadRequest, id, i.Name, string(w))
	}
	if i.Status != "Completed" {
		return out, &FailedError{i}
	}
	if i.Output != "" {
		if err := json.Unmarshal([]byte(i.Output), &out); err != nil {
			return out, fmt.Errorf("durable: the output of %q is not a %T: %w", id, out, err)
		}
	}
	return out, nil
}
