package hub

import (
	"context"
	"fmt"

	"github.com/microsoft/durabletask-go/api"
	"github.com/microsoft/durabletask-go/backend"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/lazuli-storage/lazuli/internal/durable/event"
	"github.com/lazuli-storage/lazuli/internal/durable/record"
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
	fresh []*record.Event) (answer *backend.ExecutionResults, err error) {
	for _, e := range fresh {
		if e.GetOrchestratorStarted() != nil {
			e.Timestamp = timestamppb.New(x.b.clock.Now()) // The engine has set the system's time.
		}
	}
	defer func() {
		if p := recover(); p != nil {
			answer, err = failedResults(id, p), nil
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
	if w != nil && !w.answered && w.history.Started() {
		ctx = event.WithSpan(ctx, w.history.Span)
	}
	if answer, err = x.Executor.ExecuteOrchestrator(ctx, id, old, fresh); err != nil {
		return answer, err
	}
	if w != nil {
		w.span, w.answered = event.SpanOf(answer), true
	}
	if err := x.b.takeEffects(id, answer); err != nil {
		return results.FailedWith(id, "NotSupported", err.Error()), nil
	}
	if err := checkActions(answer); err != nil {
		return results.FailedWith(id, "NotSupported", err.Error()), nil
	}
	x.b.noteContinued(id, answer)
	return answer, nil
}

// failedResults ends an instance whose workflow panicked.
func failedResults(id api.InstanceID, p any) *backend.ExecutionResults {
	kind, text := "OrchestratorPanic", fmt.Sprintf("the workflow panicked: %v", p)
	if err, ok := p.(error); ok {
		kind, text = "NonDeterministic", fmt.Sprintf("the workflow's code does not match its history: %v", err)
	}
	return results.FailedWith(id, kind, text)
}
