package hub

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/microsoft/durabletask-go/api"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/lazuli-storage/lazuli/internal/durable/event"
	"github.com/lazuli-storage/lazuli/internal/durable/record"
	"github.com/lazuli-storage/lazuli/internal/fault"
)

// terminateNow ends an instance by a commit of its end.
func (b *Backend) terminateNow(ctx context.Context, instance, reason string) (bool, error) {
	h, err := b.histories.Read(ctx, instance)
	if err != nil {
		return false, err
	}
	if h.Row, err = b.instances.Get(ctx, instance); err != nil {
		return false, err
	}
	// A workflow with locks is ended by its owner, whose checkpoint also sends their release.
	if !h.Started() || h.Row == nil || h.Completed() || len(b.unlocks(h.Events)) > 0 {
		return false, nil
	}
	if !h.Sent() {
		if err := b.resume(ctx, instance, h); err != nil {
			return false, err
		}
	}
	e := event.New("executionCompleted", -1, b.clock.Now())
	x := e.GetExecutionCompleted()
	x.OrchestrationStatus = api.RUNTIME_STATUS_TERMINATED
	if reason != "" {
		text, err := json.Marshal(reason)
		if err != nil {
			return false, err
		}
		x.Result = wrapperspb.String(string(text))
	}
	trace, err := b.remind(ctx, instance, h.ExecutionID, startHidden) // It leads on if this process dies.
	if err != nil {
		return false, err
	}
	n, err := b.histories.Commit(ctx, instance, h, h.Length, []record.NewRow{{Event: e}}, h.Sentinel.Next(),
		b.clock.Now())
	if errors.Is(err, record.ErrMoved) {
		trace.Drop(ctx)
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if err := fault.Point(pointCommitted); err != nil {
		return false, err
	}
	if err := b.resume(ctx, instance, n); err != nil {
		return true, err
	}
	trace.Drop(ctx)
	return true, nil
}
