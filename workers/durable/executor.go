package durable

import (
	"context"
	"fmt"

	"github.com/microsoft/durabletask-go/api"
	"github.com/microsoft/durabletask-go/backend"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/lazuli-storage/lazuli/internal/durable/event"
	"github.com/lazuli-storage/lazuli/internal/durable/results"
)

// executor runs workflows and activities of this process. It adds to the engine's own: a workflow that panics, as one
// does whose code does not match its history, fails alone; and the time in a workflow is the backend's clock.
type executor struct {
	backend.Executor
	b *Backend
}

// ExecuteOrchestrator implements backend.Executor.
func (x executor) ExecuteOrchestrator(ctx context.Context, id api.InstanceID, old,
	fresh []*Event) (results *backend.ExecutionResults, err error) {
	for _, e := range fresh {
		if e.GetOrchestratorStarted() != nil {
			e.Timestamp = timestamppb.New(x.b.clock.Now()) // The engine has set the system's time.
		}
	}
	defer func() {
		if p := recover(); p != nil {
			results, err = failedResults(id, p), nil
		}
	}()
	if r := x.b.pauseContinued(id); r != nil {
		return r, nil
	}
	x.b.completeStarts(id, fresh)
	if old, fresh, err = event.InCoreForm(string(id), old, fresh); err != nil {
		return nil, err
	}
	w := x.b.inWork.of(string(id))
	if w != nil && !w.answered && w.history.started() {
		ctx = event.WithSpan(ctx, w.history.Span)
	}
	if results, err = x.Executor.ExecuteOrchestrator(ctx, id, old, fresh); err != nil {
		return results, err
	}
	if w != nil {
		w.span, w.answered = event.SpanOf(results), true
	}
	if err := x.b.takeEffects(id, results); err != nil {
		return failedWith(id, "NotSupported", err.Error()), nil
	}
	if err := checkActions(results); err != nil {
		return failedWith(id, "NotSupported", err.Error()), nil
	}
	x.b.noteContinued(id, results)
	return results, nil
}

// failedResults ends an instance whose workflow panicked.
func failedResults(id api.InstanceID, p any) *backend.ExecutionResults {
	kind, text := "OrchestratorPanic", fmt.Sprintf("the workflow panicked: %v", p)
	if err, ok := p.(error); ok {
		kind, text = "NonDeterministic", fmt.Sprintf("the workflow's code does not match its history: %v", err)
	}
	return failedWith(id, kind, text)
}

// failedWith ends an instance as failed.
func failedWith(id api.InstanceID, kind, text string) *backend.ExecutionResults {
	return failedAs(id, event.NewFailure(kind, text))
}

// failedAs is failedWith with details.
func failedAs(id api.InstanceID, details *backend.TaskFailureDetails) *backend.ExecutionResults {
	r := results.New()
	r.Response.InstanceId = string(id)
	m := r.Response.ProtoReflect()
	actions := m.Mutable(m.Descriptor().Fields().ByName("actions")).List()
	action := actions.AppendMutable().Message()
	done := action.Mutable(action.Descriptor().Fields().ByName("completeOrchestration")).Message()
	fields := done.Descriptor().Fields()
	done.Set(fields.ByName("orchestrationStatus"),
		protoreflect.ValueOfEnum(protoreflect.EnumNumber(api.RUNTIME_STATUS_FAILED)))
	done.Set(fields.ByName("failureDetails"), protoreflect.ValueOfMessage(proto.Message(details).ProtoReflect()))
	return r
}
