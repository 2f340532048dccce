package durable

import (
	"context"
	"fmt"

	"github.com/microsoft/durabletask-go/api"
	"github.com/microsoft/durabletask-go/backend"
	"google.golang.org/protobuf/proto"

	"github.com/lazuli-storage/lazuli/internal/durable/protocol"
	"github.com/lazuli-storage/lazuli/workers"
)

// ExternalCall runs one step of a workflow whose code is elsewhere. It takes an OrchestratorRequest and returns an
// OrchestratorResponse of the Durable Task protocol, as protobuf. A step that fails with an error is run again later;
// with one of workers.Permanent, the instance fails.
type ExternalCall func(ctx context.Context, request []byte) (response []byte, err error)

type external struct{ call ExternalCall }

// OrchestratorOf implements workers.Orchestrator.
func (external) OrchestratorOf() string { return "durabletask-go" }

// ExternalOrchestrator makes a workflow of code that is reached by messages.
func ExternalOrchestrator(call ExternalCall) workers.Orchestrator {
	if call == nil {
		return nil
	}
	return external{call}
}

// ExternalBatch runs a batch of operations of an entity whose code is elsewhere, in their order. Nothing of the batch
// has happened if it returns an error; the batch is then run again later.
type ExternalBatch func(ctx context.Context, batch *EntityBatch) (*EntityResult, error)

type externalEntity struct{ run ExternalBatch }

// ExternalEntity makes the entities of a name whose code is reached by messages.
func ExternalEntity(run ExternalBatch) workers.Entity {
	if run == nil {
		return nil
	}
	return externalEntity{run}
}

// EntityOf implements workers.Entity.
func (externalEntity) EntityOf() string { return "durable" }

func (e externalEntity) runBatch(ctx context.Context, batch *EntityBatch) (*EntityResult, error) {
	return e.run(ctx, batch)
}

// externals runs the workflows whose code is elsewhere, and leaves others to the executor inside.
type externals struct {
	backend.Executor
	calls map[string]ExternalCall // by workflow
}

// ExecuteOrchestrator implements backend.Executor.
func (x externals) ExecuteOrchestrator(ctx context.Context, id api.InstanceID, old,
	fresh []*Event) (*backend.ExecutionResults, error) {
	name, _, execution := WorkflowOf(old, fresh)
	call := x.calls[name]
	if call == nil {
		return x.Executor.ExecuteOrchestrator(ctx, id, old, fresh)
	}
	request, err := proto.Marshal(NewRequest(ctx, id, execution))
	if err == nil {
		request, err = AppendEvents(request, protocol.PastEvents, old)
	}
	if err == nil {
		request, err = AppendEvents(request, protocol.NewEvents, fresh)
	}
	if err != nil {
		return nil, err
	}
	response, err := call(ctx, request)
	switch {
	case workers.IsPermanent(err):
		return failedAs(id, FailureFrom(err, "OrchestratorFailed")), nil
	case err != nil:
		return nil, err
	}
	r, err := resultsOf(response)
	if err != nil {
		return failedWith(id, "OrchestratorFailed",
			fmt.Sprintf("the workflow's answer is not an OrchestratorResponse: %v", err)), nil
	}
	r.Response.InstanceId = string(id)
	return r, nil
}
