package hub

import (
	"context"
	"errors"
	"time"

	"github.com/lazuli-storage/lazuli/internal/durable/event"
	"github.com/lazuli-storage/lazuli/internal/durable/inflight"
	"github.com/lazuli-storage/lazuli/internal/durable/lease"
	"github.com/lazuli-storage/lazuli/internal/durable/record"
	"github.com/lazuli-storage/lazuli/internal/durable/workkind"
	"github.com/lazuli-storage/lazuli/internal/sdk/sdkerr"
)

// runPartition receives the messages of a partition until ctx is done.
func (b *Backend) runPartition(ctx context.Context, r *run, partition int) {
	p := &poller{b: b, q: b.control[partition]}
	for ctx.Err() == nil {
		if b.sessions.Count(partition) >= b.options.MaxBuffered {
			sleep(ctx, systemClock{}, 5*time.Millisecond)
			continue
		}
		p.poll(ctx, receiveMost, func(list []*inflight.Received) { b.receiveControl(ctx, r, partition, list) })
	}
	b.giveBack(b.sessions.Forget(partition))
}

// receiveControl hands the messages of a partition to their sessions. They were received in the run, which is nil in a
// process that was not started.
func (b *Backend) receiveControl(ctx context.Context, in *run, partition int, list []*inflight.Received) {
	now := b.clock.Now()
	due := list[:0:0]
	for _, r := range list {
		if r.Due != nil && r.Due.After(now) {
			b.delay(ctx, in, partition, r, r.Due.Sub(now))
			continue
		}
		due = append(due, r)
	}
	b.handOver(partition, due)
}

// handOver hands messages to their sessions, or gives them back to the queue if the process has stopped: nothing here
// would handle them, and they would be renewed, hidden from all others, as long as the process lives.
func (b *Backend) handOver(partition int, list []*inflight.Received) {
	if !b.sessions.Add(partition, list) {
		b.giveBack(list)
	}
}

// delay keeps a timer's message until it is due: in the queue for as long as a message can be hidden there, the last
// moment here.
func (b *Backend) delay(ctx context.Context, in *run, partition int, r *inflight.Received, left time.Duration) {
	if left >= time.Second {
		// The message was received: if the partition is lost meanwhile, it must not stay hidden as long as it is this
		// process's.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lease.ReleaseTimeout)
		defer cancel()
		if err := r.Hide(ctx, left, false); err != nil {
			b.log.Warn("cannot delay a timer", "instance", r.Instance, "err", sdkerr.Short(err))
			r.Release()
		}
		return
	}
	work, until := &b.background, b.life
	// The run in which it was received, not the one of this moment: a stop that has begun since waits for it.
	if in != nil {
		work, until = &in.all, in.ctx
	}
	work.Go(func() {
		if sleep(until, b.clock, left) {
			b.handOver(partition, []*inflight.Received{r})
		} else {
			b.giveBack([]*inflight.Received{r})
		}
	})
}

// setAside moves a message that cannot be read to the hub's poison queue.
func (b *Backend) setAside(ctx context.Context, r *inflight.Received) {
	b.log.Error("message cannot be read; moving it to the poison queue", "queue", b.names.Poison(), "message",
		r.QueueID(), "err",
		r.Type)
	b.stats.poisoned.Add(1)
	_, err := b.poison.Put(ctx, r.Text, 0)
	if record.IsNotFound(err) {
		if _, err = b.poison.Client.Create(ctx, nil); err == nil {
			_, err = b.poison.Put(ctx, r.Text, 0)
		}
	}
	if err == nil {
		err = r.Delete(ctx)
	}
	if err != nil {
		b.log.Warn("cannot move a message to the poison queue; it appears again", "err", sdkerr.Short(err))
	}
}

// prepare makes a work item of the messages that wait in a session; nil if there is nothing for the engine to do.
func (b *Backend) prepare(ctx context.Context, w *inflight.Session) *work {
	list := b.sessions.Take(w)
	if len(list) == 0 {
		b.writeLate(ctx, w.Instance)
		b.sessions.Done(w, nil)
		return nil
	}
	item, err := b.load(ctx, w, list)
	var corrupt *record.CorruptError
	switch {
	case errors.As(err, &corrupt):
		err = b.failCorrupt(ctx, w.Instance, corrupt)
		if err == nil {
			b.finishWork(ctx, &work{session: w, messages: list})
			return nil
		}
	case err == nil && item != nil:
		return item
	}
	if err != nil && ctx.Err() == nil {
		b.log.Warn("cannot prepare an instance; trying again", "instance", w.Instance, "err", sdkerr.Short(err))
	}
	if err != nil {
		b.retry(w, list)
	}
	return nil
}

// retry gives messages back so that they come again, the later the more often they have come already.
func (b *Backend) retry(w *inflight.Session, list []*inflight.Received) {
	ctx, cancel := context.WithTimeout(context.Background(), lease.ReleaseTimeout)
	defer cancel()
	for _, r := range list {
		if err := r.Hide(ctx, retryDelay(r.Attempts), false); err != nil {
			r.Release()
		}
	}
	b.cache.Forget(w.Instance)
	b.sessions.Done(w, list)
}

// retryDelay grows from nothing to five minutes.
func retryDelay(attempts int64) time.Duration {
	if attempts <= 1 {
		return 0
	}
	return min(time.Duration(attempts)*time.Second, 5*time.Minute)
}

// load determines which messages are new. It returns nil if none is left for the engine; the session is then released.
//
// A message is dropped only on what storage says: a history in memory could be out of date, and a dropped message is
// gone.
func (b *Backend) load(ctx context.Context, w *inflight.Session, list []*inflight.Received) (*work, error) {
	for guess := true; ; guess = false {
		h, from, err := b.history(ctx, w.Instance, list, guess)
		if err != nil {
			return nil, err
		}
		item, err := b.judge(ctx, w, h, list, from != fromCache)
		if err != nil {
			return nil, err
		}
		if from != fromStorage && item.dropped > 0 {
			b.cache.Forget(w.Instance)
			continue
		}
		b.stats.dropped.Add(int64(item.dropped))
		// The owner before may have died between its commit and its messages.
		if !h.Sent() {
			if err := b.resume(ctx, w.Instance, h); err != nil {
				return nil, err
			}
		}
		if len(item.events) == 0 {
			b.finishWork(ctx, item)
			return nil, nil
		}
		if name, version := item.workflow(); !b.accepts(workkind.Orchestration, name, version) {
			b.park(workkind.Orchestration, name, version, list)
			b.sessions.Done(w, list)
			b.offerAccepted(workkind.Orchestration, name, version)
			return nil, nil
		}
		return item, nil
	}
}

// workflow returns the name and version of the workflow that is to run.
func (w *work) workflow() (name, version string) {
	start := w.history.StartEvent()
	for _, r := range w.events {
		if r.Event.GetExecutionStarted() != nil {
			start = r.Event
		}
	}
	x := start.GetExecutionStarted()
	return x.GetName(), x.GetVersion().GetValue()
}

// judge decides for each message whether to process, postpone or drop it.
func (b *Backend) judge(ctx context.Context, w *inflight.Session, h *record.History, list []*inflight.Received,
	fresh bool) (*work, error) {
	f := NewFilter(b, w.Instance, h, fresh)
	item := &work{session: w, messages: list, base: h, history: h}
	for _, r := range list {
		v, err := f.Judge(ctx, r.Message)
		if err != nil {
			return nil, err
		}
		if v == Accept {
			if v, err = b.fill(ctx, w.Instance, r.Message); err != nil {
				return nil, err
			}
		}
		if f.h != item.history { // The workflow begins here: what came before was for the one that it replaces.
			item.dropped += len(item.events)
			item.events, item.history = nil, f.h
		}
		switch v {
		case Accept:
			item.events = append(item.events, record.NewRow{Event: r.Parsed, ID: r.ID, Blob: r.Blob})
			item.attempts = max(item.attempts, r.Attempts)
		case postpone:
			item.postponed = append(item.postponed, r)
		case Drop:
			item.dropped++
			if fresh && r.Blob != "" && r.Execution != "" && f.h.Started() && r.Execution != f.h.ExecutionID {
				// It was written after the payloads of its execution were deleted.
				if err := b.payloads.Delete(ctx, r.Blob); err != nil {
					b.log.Warn("cannot delete the data of an earlier execution", "instance", w.Instance, "err",
						sdkerr.Short(err))
				}
			}
		}
	}
	return item, nil
}

// fill reads the payload of a message that is to be accepted. An event whose payload is lost is dropped, the completion
// of a task becomes its failure, and an instance without its input fails.
func (b *Backend) fill(ctx context.Context, instance string, m *record.Message) (Verdict, error) {
	err := b.payloads.Fill(ctx, m)
	if !errors.Is(err, record.ErrNoPayload) && !errors.Is(err, record.ErrBadMessage) {
		return Accept, err
	}
	if m.Parsed.GetExecutionStarted() != nil {
		return Drop, record.Corrupt(instance, nil, err)
	}
	b.log.Error("the payload of an event cannot be read", "instance", instance, "type", m.Type, "err", err)
	if b.substitute(m, err) {
		return Accept, nil
	}
	return Drop, nil
}

// substitute replaces the result of a task that cannot be read by a failure, so that the workflow does not wait without
// a limit.
func (b *Backend) substitute(m *record.Message, reason error) bool {
	at, failure := m.Parsed.Timestamp.AsTime(), event.NewFailure(record.PayloadLost, reason.Error())
	if c := event.ExtraOf(m.Parsed).GetEntityOperationCompleted(); c != nil {
		x, err := operationFailed(c.RequestId, failure)
		if err != nil {
			return false
		}
		x.Timestamp = m.Parsed.Timestamp
		if m.Parsed, err = event.FromProtocol(x); err != nil {
			return false
		}
		m.Blob, m.Field = "", ""
		return true
	}
	id, ok := event.TaskOf(m.Parsed)
	if !ok {
		return false
	}
	if m.Parsed.GetTaskCompleted() != nil {
		m.Parsed = event.New("taskFailed", -1, at)
		x := m.Parsed.GetTaskFailed()
		x.TaskScheduledId, x.FailureDetails = id, failure
	} else {
		m.Parsed = event.New("subOrchestrationInstanceFailed", -1, at)
		x := m.Parsed.GetSubOrchestrationInstanceFailed()
		x.TaskScheduledId, x.FailureDetails = id, failure
	}
	m.Blob, m.Field = "", ""
	return true
}
