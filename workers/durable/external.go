package durable

import (
	"context"
	"fmt"

	"github.com/microsoft/durabletask-go/api"
	"github.com/microsoft/durabletask-go/backend"
	"google.golang.org/protobuf/proto"

	"github.com/lazuli-storage/lazuli/internal/durable/entitybatch"
	"github.com/lazuli-storage/lazuli/internal/durable/event"
	"github.com/lazuli-storage/lazuli/internal/durable/external"
	"github.com/lazuli-storage/lazuli/internal/durable/protocol"
	"github.com/lazuli-storage/lazuli/internal/durable/record"
	"github.com/lazuli-storage/lazuli/internal/durable/results"
	"github.com/lazuli-storage/lazuli/workers"
)

// externalEntity runs the operations of an entity whose code is elsewhere. A batch that would fail again at each
// attempt fails once, with its operations.
func externalEntity(e external.Entity) entityBatch {
	return func(ctx context.Context, batch *entitybatch.Batch) (*entitybatch.Result, error) {
		r, err := e(ctx, batch)
		if workers.IsPermanent(err) {
			return &entitybatch.Result{State: batch.State, Failure: failureOr(err, "EntityFailed")}, nil
		}
		return r, err
	}
}

// externals runs the workflows whose code is elsewhere, and leaves others to the executor inside.
type externals struct {
	backend.Executor
	calls map[string]external.Orchestrator // by workflow
}

// ExecuteOrchestrator implements backend.Executor.
func (x externals) ExecuteOrchestrator(ctx context.Context, id api.InstanceID, old,
	fresh []*record.Event) (*backend.ExecutionResults, error) {
	name, _, execution := event.WorkflowOf(old, fresh)
	call := x.calls[name]
	if call == nil {
		return x.Executor.ExecuteOrchestrator(ctx, id, old, fresh)
	}
	request, err := proto.Marshal(event.NewRequest(ctx, id, execution))
	if err == nil {
		request, err = event.AppendEvents(request, protocol.PastEvents, old)
	}
	if err == nil {
		request, err = event.AppendEvents(request, protocol.NewEvents, fresh)
	}
	if err != nil {
		return nil, err
	}
	response, err := call(ctx, request)
	switch {
	case workers.IsPermanent(err):
		return results.FailedAs(id, failureOr(err, "OrchestratorFailed")), nil
	case err != nil:
		return nil, err
	}
	r, err := results.Read(response)
	if err != nil {
		return results.FailedWith(id, "OrchestratorFailed",
			fmt.Sprintf("the workflow's answer is not an OrchestratorResponse: %v", err)), nil
	}
	r.Response.InstanceId = string(id)
	return r, nil
}
