package hub

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/microsoft/durabletask-go/api"
	"github.com/microsoft/durabletask-go/backend"

	"github.com/lazuli-storage/lazuli/internal/durable/event"
	"github.com/lazuli-storage/lazuli/internal/durable/inflight"
	"github.com/lazuli-storage/lazuli/internal/durable/record"
)

const workProperty = "lazuli.durable.work"

func (b *Backend) item(w *work) *backend.OrchestrationWorkItem {
	id := api.InstanceID(w.session.Instance)
	wi := &backend.OrchestrationWorkItem{InstanceID: id, LockedBy: b.options.Worker,
		RetryCount: int32(max(0, w.attempts-1)),
		State:      backend.NewOrchestrationRuntimeState(id, w.history.Events), Properties: map[string]any{workProperty: w}}
	for _, r := range w.events {
		wi.NewEvents = append(wi.NewEvents, r.Event)
	}
	b.inWork.add(w)
	return wi
}

// GetOrchestrationWorkItem implements backend.Backend. A backend that was started waits for work until ctx is done or
// the backend stops; one that was never started checks once.
func (b *Backend) GetOrchestrationWorkItem(ctx context.Context) (*backend.OrchestrationWorkItem, error) {
	if err := b.ready(); err != nil {
		return nil, err
	}
	if r := b.running(); r != nil {
		select {
		case w := <-r.work:
			return b.item(w), nil
		case <-r.ctx.Done():
			return nil, backend.ErrNoWorkItems
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if b.hasStopped() {
		return nil, backend.ErrNoWorkItems
	}
	return b.pull(ctx)
}

// pull checks all partitions for work once.
func (b *Backend) pull(ctx context.Context) (*backend.OrchestrationWorkItem, error) {
	for i := range b.control {
		for {
			n, _, err := b.receive(ctx, b.control[i], receiveMost, new(time.Duration),
				func(list []*inflight.Received) { b.receiveControl(ctx, nil, i, list) })
			if err != nil {
				return nil, err
			}
			if n < receiveMost {
				break
			}
		}
	}
	for w := b.sessions.Next(); w != nil; w = b.sessions.Next() {
		if item := b.prepare(ctx, w); item != nil {
			return b.item(item), nil
		}
	}
	return nil, backend.ErrNoWorkItems
}

// source says where a history is from.
type source int

const (
	fromStorage source = iota
	fromCache          // it may be out of date
	fromGuess          // it is empty, since the instance has just been created
)

// history returns an instance's history, with its row. The caller has the instance's session in hand, with messages for
// it. If guess is true, the history of a new instance is not looked for.
func (b *Backend) history(ctx context.Context, instance string, list []*inflight.Received,
	guess bool) (h *record.History, from source,
	err error) {
	if h := b.cache.Get(instance); h != nil {
		return h, fromCache, nil
	}
	late := b.late.Get(instance)
	if guess && late == nil {
		if h, err := b.guess(ctx, instance, list); h != nil || err != nil {
			return h, fromGuess, err
		}
	}
	h, err = b.histories.Read(ctx, instance)
	if err != nil {
		return nil, fromStorage, err
	}
	// The row is read after the history: it says whether the messages of the checkpoint that was read have been sent.
	if h.Row, err = b.instances.Get(ctx, instance); err != nil {
		return nil, fromStorage, err
	}
	if late != nil && late.StartID == h.StartID && late.Checkpoint == h.Checkpoint {
		h.Delivered = late.Delivered
	}
	b.stats.loads.Add(1)
	return h, fromStorage, nil
}

// guess returns an empty history if a message that has come for the first time starts an instance that was created for
// it. If there is a history all the same, its sentinel refuses the first checkpoint, and the message comes again.
func (b *Backend) guess(ctx context.Context, instance string, list []*inflight.Received) (*record.History, error) {
	i := slices.IndexFunc(list, func(r *inflight.Received) bool { return r.Parsed.GetExecutionStarted() != nil })
	if i < 0 || list[i].Attempts > 1 {
		return nil, nil
	}
	row, err := b.instances.Get(ctx, instance)
	if err != nil || row == nil || row.StartID != event.ExecutionOf(list[i].Parsed) || row.Checkpoint > 0 ||
		row.Replaces {
		return nil, err
	}
	b.stats.loads.Add(1)
	h := record.NewHistory()
	h.Row = row
	return h, nil
}

// GetOrchestrationRuntimeState implements backend.Backend.
func (b *Backend) GetOrchestrationRuntimeState(ctx context.Context,
	wi *backend.OrchestrationWorkItem) (*backend.OrchestrationRuntimeState, error) {
	if err := b.ready(); err != nil {
		return nil, err
	}
	if w, ok := wi.Properties[workProperty].(*work); ok {
		return backend.NewOrchestrationRuntimeState(wi.InstanceID, w.history.Events), nil
	}
	h, err := b.histories.Read(ctx, string(wi.InstanceID))
	if err != nil {
		return nil, err
	}
	return backend.NewOrchestrationRuntimeState(wi.InstanceID, h.Events), nil
}

// GetOrchestrationMetadata implements backend.Backend.
func (b *Backend) GetOrchestrationMetadata(ctx context.Context, id api.InstanceID) (*api.OrchestrationMetadata, error) {
	if err := b.ready(); err != nil {
		return nil, err
	}
	row, m, err := b.instances.Described(ctx, string(id))
	if err == nil && row == nil {
		return nil, api.ErrInstanceNotFound
	}
	return m, err
}

// AbandonOrchestrationWorkItem implements backend.Backend.
func (b *Backend) AbandonOrchestrationWorkItem(_ context.Context, wi *backend.OrchestrationWorkItem) error {
	if err := b.ready(); err != nil {
		return err
	}
	w, ok := wi.Properties[workProperty].(*work)
	if !ok || w.settled {
		return backend.ErrWorkItemLockLost
	}
	w.settled = true
	b.inWork.remove(w)
	b.retry(w.session, w.messages)
	return nil
}

// AddNewOrchestrationEvent implements backend.Backend.
func (b *Backend) AddNewOrchestrationEvent(ctx context.Context, id api.InstanceID, e *backend.HistoryEvent) error {
	if err := b.ready(); err != nil {
		return err
	}
	return b.addEvent(ctx, string(id), e, record.NewID())
}

func (b *Backend) addEvent(ctx context.Context, instance string, e *record.Event, id string) error {
	if e == nil || e.Timestamp == nil {
		return errors.New("durable: the event is nil or has no time")
	}
	if err := record.CheckInstanceID(instance); err != nil {
		return err
	}
	if err := b.checkPayload(e); err != nil {
		return err
	}
	_, err := b.send(ctx, record.Outgoing{Message: &record.Message{ID: id, Instance: instance, Parsed: e}})
	return err
}
