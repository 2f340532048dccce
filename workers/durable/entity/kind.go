package entity

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/internal/durable/entitybatch"
	"github.com/lazuli-storage/lazuli/internal/durable/results"
	"github.com/lazuli-storage/lazuli/workers"
	"github.com/lazuli-storage/lazuli/workers/durable/internal/inside"
)

// Kind defines the entities of one name, whose states are values of the type S in JSON. Operations are added by
// [Operation]; the zero value has none:
//
//	counter := new(entity.Kind[int])
//	entity.Operation(counter, "add", func(ctx *entity.Context, state *int, n int) (int, error) {
//		*state += n
//		return *state, nil
//	})
//	app.Entity("counter", counter)
//
// An entity runs one operation at a time, in the order in which they arrived. What an operation changes and sends takes
// effect once, also when the process crashes; the operation itself can run again before that. An operation that returns
// an error, or panics, changes and sends nothing.
type Kind[S any] struct {
	operations map[string]func(*Context, *S, *string) (any, error)
}

// Operation adds an operation to a kind of entities, and returns the kind. state is that of a new S if the entity has
// none. Names of operations do not differ by case. It panics if the kind has the operation already.
func Operation[S, In, Out any](e *Kind[S], name string,
	f func(ctx *Context, state *S, in In) (Out, error)) *Kind[S] {
	key := strings.ToLower(name)
	if e.operations[key] != nil || f == nil {
		panic(fmt.Sprintf("entity: the operation %q is nil, or was added before", name))
	}
	if e.operations == nil {
		e.operations = map[string]func(*Context, *S, *string) (any, error){}
	}
	e.operations[key] = func(ctx *Context, state *S, input *string) (any, error) {
		var in In
		if input != nil && *input != "" {
			if err := json.Unmarshal([]byte(*input), &in); err != nil {
				return nil, fmt.Errorf("the input is not a %T: %w", in, err)
			}
		}
		return f(ctx, state, in)
	}
	return e
}

// Context belongs to one operation of an entity.
type Context struct {
	// ID is the entity's ID, "@name@key".
	ID string
	// Operation is the operation's name.
	Operation string
	// Key is the same in each attempt to run the operation, and different for every other: for effects outside of the
	// entity that must not happen twice.
	Key string
	// Context is that of a handler: it has the app's outputs, such as workers.Enqueue, and its invocation. It is done when
	// the process stops. What an output writes is written again when the operation runs again; Key is the same then.
	Context context.Context

	deleted bool
	signals []entitybatch.Signal
	starts  []entitybatch.Start
	err     error
}

// Delete deletes the entity's state at the end of the operation.
func (c *Context) Delete() { c.deleted = true }

// Signal sends an operation to an entity, this one too, at the end of the operation. at is the time at which it
// arrives; the zero time means at once.
func (c *Context) Signal(id, operation string, in any, at time.Time) {
	c.signals = append(c.signals, entitybatch.Signal{ID: id, Operation: operation, Input: c.text(in), At: at})
}

// Start starts a workflow at the end of the operation. Without an ID, the instance gets a random one.
func (c *Context) Start(workflow, instanceID string, in any) {
	c.starts = append(c.starts, entitybatch.Start{Workflow: workflow, InstanceID: instanceID, Input: c.text(in)})
}

func (c *Context) text(v any) *string {
	if v == nil {
		return nil
	}
	b, err := json.Marshal(v)
	if err != nil && c.err == nil {
		c.err = err
	}
	text := string(b)
	return &text
}

// EntityOf implements engine.Entity.
func (*Kind[S]) EntityOf() string { return "durable" }

// runner is a Kind of any type of state.
type runner interface {
	runBatch(ctx context.Context, batch *entitybatch.Batch) *entitybatch.Result
}

// The engine, which is another package, runs batches. No exported method may: a program could not call it.
func init() {
	inside.EntityBatch = func(kind any) func(context.Context, *entitybatch.Batch) *entitybatch.Result {
		if r, ok := kind.(runner); ok {
			return r.runBatch
		}
		return nil
	}
}

// runBatch runs operations one after the other. One that fails leaves the state as it was before it.
func (e *Kind[S]) runBatch(ctx context.Context, batch *entitybatch.Batch) *entitybatch.Result {
	r := &entitybatch.Result{State: batch.State}
	for _, o := range batch.Operations {
		c := &Context{ID: batch.ID, Operation: o.Name, Key: o.ID, Context: ctx}
		state, output, err := e.operate(c, r.State, o)
		if err != nil {
			r.Results = append(r.Results, entitybatch.OperationResult{Failure: results.FailureOf(err, workers.IsPermanent(err))})
			continue
		}
		r.Results = append(r.Results, entitybatch.OperationResult{Output: output})
		r.State, r.Signals, r.Starts = state, append(r.Signals, c.signals...), append(r.Starts, c.starts...)
	}
	return r
}

// operate runs one operation.
func (e *Kind[S]) operate(c *Context, before *string,
	o entitybatch.Operation) (state, output *string, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the operation %q panicked: %v", o.Name, p)
		}
	}()
	f := e.operations[strings.ToLower(o.Name)]
	if f == nil {
		return nil, nil, fmt.Errorf("the entity %s has no operation %q", c.ID, o.Name)
	}
	var s S
	if before != nil {
		if err := json.Unmarshal([]byte(*before), &s); err != nil {
			return nil, nil, fmt.Errorf("the state of %s is not a %T: %w", c.ID, s, err)
		}
	}
	out, err := f(c, &s, o.Input)
	if err != nil {
		return nil, nil, err
	}
	output = c.text(out)
	if !c.deleted {
		state = c.text(s)
	}
	return state, output, c.err
}
