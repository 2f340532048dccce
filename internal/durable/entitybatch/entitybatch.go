// Package entitybatch has the batches of operations on an entity that the engine gives to the code of entities, and the
// results that it takes: in Go by workers/durable, in other processes by the endpoint for workers
// (internal/durable/sidecar) and the function host. It converts both from and to the Durable Task protocol.
package entitybatch

import (
	"context"
	"strings"
	"time"

	"github.com/microsoft/durabletask-go/backend"
)

// Executor runs operations of entities. If the engine's executor implements it, the engine
// gives it the entities of the hub.
type Executor interface {
	// ExecuteEntity runs the operations of a batch in their order. Nothing of the batch has happened if it returns an
	// error; the batch is then run again later.
	ExecuteEntity(ctx context.Context, batch *Batch) (*Result, error)
}

// Batch are operations of one entity. No other batch of the entity runs at the same time.
type Batch struct {
	// ID is the entity's ID, "@name@key".
	ID string
	// State is the entity's state; nil if it has none.
	State *string
	// Operations are the operations, in their order.
	Operations []Operation
}

// NameOf returns the name in an entity's ID, "@name@key".
func NameOf(id string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(id, "@"), "@")
	return name
}

// Operation is an operation of an entity.
type Operation struct {
	// ID is the same in each attempt to run the operation, and different for every other.
	ID   string
	Name string
	// Input is nil without one.
	Input *string
	// Caller and Execution are the workflow that waits for the result; empty for a signal.
	Caller, Execution string
	// TraceParent and TraceState are the W3C trace context of the caller, if it has one.
	TraceParent, TraceState string
}

// Result holds what a batch has done.
type Result struct {
	// Results has one element for each operation that has run, in their order. Operations without one are run again.
	Results []OperationResult
	// Signals and Starts are what the operations send.
	Signals []Signal
	Starts  []Start
	// State is the entity's state after the batch; nil for none.
	State *string
	// Failure, unless it is nil, fails all operations that have no result: the batch could not be run.
	Failure *backend.TaskFailureDetails
}

// OperationResult is the outcome of an operation.
type OperationResult struct {
	// Output is the result; nil for none.
	Output *string
	// Failure is why the operation failed; nil if it succeeded.
	Failure *backend.TaskFailureDetails
}

// Signal is a signal that an operation sends to an entity.
type Signal struct {
	// ID is the entity's ID.
	ID, Operation string
	Input         *string
	// At is the time at which the signal arrives. Zero: at once.
	At time.Time
}

// Start is a workflow that an operation starts.
type Start struct {
	// InstanceID is the instance's ID. Default: a random one.
	InstanceID, Workflow, Version string
	Input                         *string
	// At is the time at which the workflow starts. Zero: at once.
	At time.Time
}
