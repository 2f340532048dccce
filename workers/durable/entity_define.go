package durable

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/internal/durable/entitybatch"
	"github.com/lazuli-storage/lazuli/workers"
)

// Entity defines the entities of one name, whose states are values of the type S in JSON. Operations are added by
// [Operation]:
//
//	counter := durable.NewEntity[int]()
//	durable.Operation(counter, "add", func(ctx *durable.EntityContext, state *int, n int) (int, error) {
//		*state += n
//		return *state, nil
//	})
//	app.Entity("counter", counter)
//
// An entity runs one operation at a time, in the order in which they arrived. What an operation changes and sends takes
// effect once, also when the process crashes; the operation itself can run again before that. An operation that returns
// an error, or panics, changes and sends nothing.
type Entity[S any] struct {
	operations map[string]func(*EntityContext, *S, *string) (any, error)
}

// NewEntity returns an entity without operations.
func NewEntity[S any]() *Entity[S] {
	return &Entity[S]{operations: map[string]func(*EntityContext, *S, *string) (any, error){}}
}

// Operation adds an operation to an entity, and returns the entity. state is that of a new S if the entity has none.
// Names of operations do not differ by case. It panics if the entity has the operation already.
func Operation[S, In, Out any](e *Entity[S], name string,
	f func(ctx *EntityContext, state *S, in In) (Out, error)) *Entity[S] {
	key := strings.ToLower(name)
	if e.operations[key] != nil || f == nil {
		panic(fmt.Sprintf("durable: the operation %q is nil, or the entity has it already", name))
	}
	e.operations[key] = func(ctx *EntityContext, state *S, input *string) (any, error) {
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

// EntityContext belongs to one operation of an entity.
type EntityContext struct {
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
func (c *EntityContext) Delete() { c.deleted = true }

// Signal sends an operation to an entity, this one too, at the end of the operation. at is the time at which it
// arrives; the zero time means at once.
func (c *EntityContext) Signal(id, operation string, in any, at time.Time) {
	c.signals = append(c.signals, entitybatch.Signal{ID: id, Operation: operation, Input: c.text(in), At: at})
}

// Start starts a workflow at the end of the operation. Without an ID, the instance gets a random one.
func (c *EntityContext) Start(workflow, instanceID string, in any) {
	c.starts = append(c.starts, entitybatch.Start{Workflow: workflow, InstanceID: instanceID, Input: c.text(in)})
}

func (c *EntityContext) text(v any) *string {
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

// EntityOf implements workers.Entity.
func (*Entity[S]) EntityOf() string { return "durable" }

// entityRunner is an Entity of any type of state, or one whose code is elsewhere.
type entityRunner interface {
	workers.Entity
	runBatch(ctx context.Context, batch *entitybatch.Batch) (*entitybatch.Result, error)
}

func (e *Entity[S]) runBatch(ctx context.Context, batch *entitybatch.Batch) (*entitybatch.Result, error) {
	r := &entitybatch.Result{State: batch.State}
	for _, o := range batch.Operations {
		c := &EntityContext{ID: batch.ID, Operation: o.Name, Key: o.ID, Context: ctx}
		state, output, err := e.operate(c, r.State, o)
		if err != nil {
			r.Results = append(r.Results, entitybatch.OperationResult{Failure: failureOf(err)})
			continue
		}
		r.Results = append(r.Results, entitybatch.OperationResult{Output: output})
		r.State, r.Signals, r.Starts = state, append(r.Signals, c.signals...), append(r.Starts, c.starts...)
	}
	return r, nil
}

// operate runs one operation.
func (e *Entity[S]) operate(c *EntityContext, before *string,
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
