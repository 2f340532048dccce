package hub

import (
	"context"
	"errors"
	"time"

	"github.com/microsoft/durabletask-go/api"
	"github.com/microsoft/durabletask-go/backend"

	"github.com/lazuli-storage/lazuli/internal/durable/event"
	"github.com/lazuli-storage/lazuli/internal/durable/inflight"
	"github.com/lazuli-storage/lazuli/internal/durable/lease"
	"github.com/lazuli-storage/lazuli/internal/durable/record"
	"github.com/lazuli-storage/lazuli/internal/durable/workkind"
	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/sdk/sdkerr"
)

const activityProperty = "lazuli.durable.activity"

// add returns the activity of a message, or nil if a copy of it is here already.
func (a *activities) add(r *inflight.Received) *activity {
	key := activityName(r.Instance, r.Parsed.EventId)
	a.mu.Lock()
	defer a.mu.Unlock()
	if old := a.running[key]; old != nil {
		if old.first.Execution == r.Execution && old.first.Scheduled == r.Scheduled {
			// This is the same work: it is deleted with the first copy, whose result counts for both.
			old.copies = append(old.copies, r)
			return nil
		}
		r.Release() // Of another execution: it comes again.
		return nil
	}
	n := &activity{key: key, first: r, copies: []*inflight.Received{r}, began: a.b.clock.Now()}
	a.running[key] = n
	return n
}

// remove ends an activity and returns the messages that belong to it.
func (a *activities) remove(n *activity) []*inflight.Received {
	a.mu.Lock()
	defer a.mu.Unlock()
	// After a hand-back the key may belong to a copy that came later.
	if a.running[n.key] == n {
		delete(a.running, n.key)
	}
	return n.copies
}

// accept returns the activities of messages that are to run here.
func (a *activities) accept(ctx context.Context, messages []*inflight.Received) (list []*activity) {
	b := a.b
	for _, r := range messages {
		if r.Parsed.GetTaskScheduled() == nil {
			b.setAside(ctx, r)
			continue
		}
		if x := r.Parsed.GetTaskScheduled(); !b.accepts(workkind.Activity, x.Name, x.Version.GetValue()) {
			b.parkActivity(x.Name, x.Version.GetValue(), r)
			continue
		}
		if w := a.add(r); w != nil {
			list = append(list, w)
		}
	}
	return list
}

// Bounds of the adaptive number of work items that are fetched at once: what this process has, others cannot run.
const (
	quick = 50 * time.Millisecond  // a batch that was taken over so fast may be larger next time
	slow  = 500 * time.Millisecond // after this time, the remaining activities are released
)

// fetch fetches activities and hands them over until ctx is done.
func (a *activities) fetch(ctx context.Context, out chan<- *activity) {
	p := &poller{b: a.b, q: a.b.workItems}
	n := 1
	for ctx.Err() == nil {
		var list []*activity
		found := p.poll(ctx, n, func(messages []*inflight.Received) { list = a.accept(ctx, messages) })
		if found {
			n = a.hand(ctx, list, out, n)
		}
	}
}

// hand gives activities to the engine, and returns how many to fetch next.
func (a *activities) hand(ctx context.Context, list []*activity, out chan<- *activity, n int) int {
	began := time.Now()
	late := time.NewTimer(slow)
	defer late.Stop()
	expired := late.C
	for i, w := range list {
		if i == 0 {
			expired = nil // One is always kept.
		} else if expired == nil {
			expired = late.C
		}
		select {
		case out <- w:
		case <-expired:
			// The engine is busy with what it has. Other processes can run the rest.
			a.giveBack(list[i:])
			return 1
		case <-ctx.Done():
			a.giveBack(list[i:])
			return 1
		}
	}
	if time.Since(began) < quick {
		return min(2*n, receiveMost)
	}
	return max(1, n/2)
}

func (a *activities) giveBack(list []*activity) {
	for _, w := range list {
		a.b.giveBack(a.remove(w))
	}
}

// GetActivityWorkItem implements backend.Backend. It waits as GetOrchestrationWorkItem does.
func (b *Backend) GetActivityWorkItem(ctx context.Context) (*backend.ActivityWorkItem, error) {
	if err := b.ready(); err != nil {
		return nil, err
	}
	for {
		w, err := b.nextActivity(ctx)
		if err != nil {
			return nil, err
		}
		if err := fault.Point(pointActivity); err != nil {
			b.postpone(ctx, w, err)
			continue
		}
		m := w.first
		if over, err := b.isOver(ctx, m); err != nil {
			b.postpone(ctx, w, err)
			continue
		} else if over {
			b.stats.dropped.Add(1)
			b.deleteActivity(w)
			continue
		}
		wi := &backend.ActivityWorkItem{InstanceID: api.InstanceID(m.Instance), NewEvent: m.Parsed,
			LockedBy:   b.options.Worker,
			Properties: map[string]any{activityProperty: w}}
		err = b.payloads.Fill(ctx, m.Message)
		if err == nil {
			return wi, nil
		}
		if !errors.Is(err, record.ErrNoPayload) && !errors.Is(err, record.ErrBadMessage) {
			b.postpone(ctx, w, err)
			continue
		}
		// A lost payload does not come back: the activity fails without running, and its workflow goes on.
		wi.Result = event.New("taskFailed", -1, b.clock.Now())
		x := wi.Result.GetTaskFailed()
		x.TaskScheduledId, x.FailureDetails = m.Parsed.EventId, event.NewFailure(record.PayloadLost, err.Error())
		if err := b.CompleteActivityWorkItem(ctx, wi); err != nil {
			return nil, err
		}
	}
}

// postpone gives back an activity that cannot be prepared, and waits a second. The engine would wait for five before it
// asked for any activity.
func (b *Backend) postpone(ctx context.Context, w *activity, err error) {
	b.activities.giveBack([]*activity{w})
	if ctx.Err() == nil {
		b.log.Warn("cannot prepare an activity; trying again", "instance", w.first.Instance, "err", sdkerr.Short(err))
		sleep(ctx, systemClock{}, time.Second)
	}
}

func (b *Backend) nextActivity(ctx context.Context) (*activity, error) {
	if r := b.running(); r != nil {
		select {
		case w := <-r.activities:
			return w, nil
		case <-r.ctx.Done():
			return nil, backend.ErrNoWorkItems
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if b.hasStopped() {
		return nil, backend.ErrNoWorkItems
	}
	// Without Start no poller fills the channel, and the caller looks into the queue itself.
	var list []*activity
	_, _, err := b.receive(ctx, b.workItems, 1, new(time.Duration),
		func(messages []*inflight.Received) { list = b.activities.accept(ctx, messages) })
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, backend.ErrNoWorkItems
	}
	return list[0], nil
}

// CompleteActivityWorkItem implements backend.Backend: it sends the result, then deletes the work item. A crash in
// between repeats the activity; the instance takes the first result. Where this process has the instance's partition,
// it hands the result over in memory; see ownResult.
func (b *Backend) CompleteActivityWorkItem(ctx context.Context, wi *backend.ActivityWorkItem) error {
	if err := b.ready(); err != nil {
		return err
	}
	w, ok := wi.Properties[activityProperty].(*activity)
	if !ok || wi.Result == nil {
		return backend.ErrWorkItemLockLost
	}
	if err := fault.Point(pointResult); err != nil {
		return err
	}
	// The activity has run: its result is sent even if the process stops meanwhile.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), checkpointTimeout)
	defer cancel()
	m, e := w.first, wi.Result
	record.TrimFailures(e)
	// The checkpoint of the instance would be refused with such a result. So the task fails, which a workflow can handle.
	if err := b.checkPayload(e); err != nil {
		e = event.New("taskFailed", -1, b.clock.Now())
		x := e.GetTaskFailed()
		x.TaskScheduledId, x.FailureDetails = m.Parsed.EventId, event.NewFailure("PayloadTooLarge", err.Error())
	}
	// The work item says which task this is, whatever number the executor has written.
	if x := e.GetTaskCompleted(); x != nil {
		x.TaskScheduledId = m.Parsed.EventId
	} else if x := e.GetTaskFailed(); x != nil {
		x.TaskScheduledId = m.Parsed.EventId
	}
	result := &record.Message{Instance: m.Instance, Execution: m.Execution, Scheduled: m.Scheduled, Parsed: e}
	own := b.ownResult(w, result)
	if own == nil {
		if _, err := b.send(ctx, record.Outgoing{Message: result}); err != nil {
			return err
		}
	}
	if err := fault.Point(pointResultSent); err != nil {
		return err
	}
	b.stats.activities.Add(1)
	if own == nil {
		b.deleteActivity(w)
		return nil
	}
	// w keeps its copies: own deletes them with the checkpoint, or lets them come again.
	b.activities.remove(w)
	b.handOver(own.Partition, []*inflight.Received{own})
	return nil
}

func (b *Backend) deleteActivity(w *activity) {
	for _, r := range b.activities.remove(w) {
		b.deleteLater(r, func() {})
	}
}

// isOver reports whether the workflow does not wait for an activity any more. It is asked of work items that come
// again: their first receiver may have died after the result was in the history. The work item may then be all that is
// left of a checkpoint whose messages were not sent; isOver reminds the instance of it.
func (b *Backend) isOver(ctx context.Context, m *inflight.Received) (bool, error) {
	// A first delivery is not checked, because that would cost each activity a read of the history.
	if m.Attempts <= 1 {
		return false, nil
	}
	h, err := b.histories.Read(ctx, m.Instance)
	var corrupt *record.CorruptError
	// The reminder leads the owner to the same history, and it fails the instance.
	if errors.As(err, &corrupt) {
		_, err := b.remind(ctx, m.Instance, m.Execution, 0)
		return true, err
	}
	if err != nil {
		return false, err
	}
	// OpenTasks names rows: a later attempt of the task, with the same number, is another one.
	if h.ExecutionID == m.Execution && !h.Completed() && record.OpenTasks(h.Events)[m.Parsed.EventId] == m.Scheduled {
		return false, nil
	}
	if h.Row, err = b.instances.Get(ctx, m.Instance); err != nil || h.Sent() {
		return true, err
	}
	_, err = b.remind(ctx, m.Instance, m.Execution, 0)
	return true, err
}

// remind sends an instance a message that its owner drops, once it has sent what the last checkpoint has left to send:
// it completes a task that no row has scheduled.
func (b *Backend) remind(ctx context.Context, instance, execution string, delay time.Duration) (inflight.Sent, error) {
	e := event.New("taskCompleted", -1, b.clock.Now())
	return b.send(ctx, record.Outgoing{Message: &record.Message{Instance: instance, Execution: execution, Parsed: e},
		Delay: delay})
}

// AbandonActivityWorkItem implements backend.Backend.
func (b *Backend) AbandonActivityWorkItem(ctx context.Context, wi *backend.ActivityWorkItem) error {
	if err := b.ready(); err != nil {
		return err
	}
	w, ok := wi.Properties[activityProperty].(*activity)
	if !ok {
		return backend.ErrWorkItemLockLost
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lease.ReleaseTimeout)
	defer cancel()
	for _, r := range b.activities.remove(w) {
		if err := r.Hide(ctx, retryDelay(r.Attempts), false); err != nil {
			r.Release()
		}
	}
	return nil
}
