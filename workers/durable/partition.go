package durable

import (
	"context"
	"errors"
	"time"

	"github.com/lazuli-storage/lazuli/internal/durable/event"
	"github.com/lazuli-storage/lazuli/internal/durable/workkind"
	"github.com/lazuli-storage/lazuli/internal/sdk/sdkerr"
)

// receiveMost is the number of messages that one request can bring.
const receiveMost = 32

// waitMost is the time that one request waits for messages where the service allows it, less than proxies and clients
// give up after.
const waitMost = 50 * time.Second

// poller receives the messages of a queue, and spaces the polls of an empty one.
type poller struct {
	b      *Backend
	q      queue
	cannot bool          // the service lets no request wait
	empty  time.Duration // the last pause
}

// poll receives up to n messages and calls handle with them, if there are any; those that cannot be read are set aside.
// It waits for messages, and returns early when ctx is done. Its pauses are of real time: a test's clock might not end
// them.
func (p *poller) poll(ctx context.Context, n int, handle func(list []*received)) (found bool) {
	asked := time.Now()
	most := waitMost
	if p.cannot {
		most = 0
	}
	got, waited, err := p.b.receive(ctx, p.q, n, &most, handle)
	switch {
	case err != nil && ctx.Err() == nil && p.b.remake(ctx, err):
	case err != nil && ctx.Err() == nil:
		p.b.log.Warn("cannot receive messages; trying again", "queue", p.q.client.URL(), "err", sdkerr.Short(err))
		sleep(ctx, systemClock{}, time.Second)
	case got > 0:
		p.empty = 0
	case waited || most == 0 && !p.cannot: // A wait that ends at once must not become a loop.
		if time.Since(asked) < time.Millisecond {
			sleep(ctx, systemClock{}, time.Millisecond)
		}
	default:
		p.cannot = p.cannot || err == nil
		p.empty = min(max(2*p.empty, 20*time.Millisecond), p.b.options.MaxPolling)
		sleep(ctx, systemClock{}, p.empty)
	}
	return got > 0
}

// receive receives messages once and calls handle with them. It sets most to the time that it could wait.
func (b *Backend) receive(ctx context.Context, q queue, n int, most *time.Duration,
	handle func(list []*received)) (got int, waited bool, err error) {
	wait, excluded, end := b.polls.Begin(*most)
	defer end()
	*most = wait
	stop, interrupt := context.WithCancel(ctx)
	defer interrupt()
	if wait > 0 {
		go func() {
			select {
			case <-excluded:
				interrupt()
			case <-stop.Done():
			}
		}()
	}
	list, bad, waited, err := q.receive(ctx, n, wait, stop.Done())
	if err != nil {
		return 0, waited, err
	}
	b.stats.received.Add(int64(len(list) + len(bad)))
	// From here on the messages are renewed, however long they wait for their sessions.
	b.holder.add(list...)
	for _, r := range bad {
		b.setAside(context.WithoutCancel(ctx), r)
	}
	if len(list) > 0 {
		handle(list)
	}
	return len(list) + len(bad), waited, nil
}

// runPartition receives the messages of a partition until ctx is done.
func (b *Backend) runPartition(ctx context.Context, r *run, partition int) {
	p := &poller{b: b, q: b.control[partition]}
	for ctx.Err() == nil {
		if b.sessions.count(partition) >= b.options.MaxBuffered {
			sleep(ctx, systemClock{}, 5*time.Millisecond)
			continue
		}
		p.poll(ctx, receiveMost, func(list []*received) { b.receiveControl(ctx, r, partition, list) })
	}
	b.giveBack(b.sessions.forget(partition))
}

// giveBack makes messages visible to others.
func (b *Backend) giveBack(list []*received) {
	ctx, cancel := context.WithTimeout(context.Background(), releaseTimeout)
	defer cancel()
	for _, r := range list {
		if ctx.Err() != nil || r.hide(ctx, 0, false) != nil {
			r.release()
		}
	}
}

// receiveControl hands the messages of a partition to their sessions. They were received in the run, which is nil in a
// process that was not started.
func (b *Backend) receiveControl(ctx context.Context, in *run, partition int, list []*received) {
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
func (b *Backend) handOver(partition int, list []*received) {
	if !b.sessions.add(partition, list) {
		b.giveBack(list)
	}
}

// delay keeps a timer's message until it is due: in the queue for as long as a message can be hidden there, the last
// moment here.
func (b *Backend) delay(ctx context.Context, in *run, partition int, r *received, left time.Duration) {
	if left >= time.Second {
		// The message was received: if the partition is lost meanwhile, it must not stay hidden as long as it is this
		// process's.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
		defer cancel()
		if err := r.hide(ctx, left, false); err != nil {
			b.log.Warn("cannot delay a timer", "instance", r.Instance, "err", sdkerr.Short(err))
			r.release()
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
			b.handOver(partition, []*received{r})
		} else {
			b.giveBack([]*received{r})
		}
	})
}

// setAside moves a message that cannot be read to the hub's poison queue.
func (b *Backend) setAside(ctx context.Context, r *received) {
	b.log.Error("message cannot be read; moving it to the poison queue", "queue", b.names.poison(), "message", r.id, "err",
		r.Type)
	b.stats.poisoned.Add(1)
	_, err := b.poison.put(ctx, r.text, 0)
	if isNotFound(err) {
		if _, err = b.poison.client.Create(ctx, nil); err == nil {
			_, err = b.poison.put(ctx, r.text, 0)
		}
	}
	if err == nil {
		err = r.delete(ctx)
	}
	if err != nil {
		b.log.Warn("cannot move a message to the poison queue; it appears again", "err", sdkerr.Short(err))
	}
}

// prepare makes a work item of the messages that wait in a session; nil if there is nothing for the engine to do.
func (b *Backend) prepare(ctx context.Context, w *session) *work {
	list := b.sessions.take(w)
	if len(list) == 0 {
		b.writeLate(ctx, w.instance)
		b.sessions.done(w, nil)
		return nil
	}
	item, err := b.load(ctx, w, list)
	var corrupt *CorruptError
	switch {
	case errors.As(err, &corrupt):
		err = b.failCorrupt(ctx, w.instance, corrupt)
		if err == nil {
			b.finishWork(ctx, &work{session: w, messages: list})
			return nil
		}
	case err == nil && item != nil:
		return item
	}
	if err != nil && ctx.Err() == nil {
		b.log.Warn("cannot prepare an instance; trying again", "instance", w.instance, "err", sdkerr.Short(err))
	}
	if err != nil {
		b.retry(w, list)
	}
	return nil
}

// retry gives messages back so that they come again, the later the more often they have come already.
func (b *Backend) retry(w *session, list []*received) {
	ctx, cancel := context.WithTimeout(context.Background(), releaseTimeout)
	defer cancel()
	for _, r := range list {
		if err := r.hide(ctx, retryDelay(r.attempts), false); err != nil {
			r.release()
		}
	}
	b.cache.forget(w.instance)
	b.sessions.done(w, list)
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
func (b *Backend) load(ctx context.Context, w *session, list []*received) (*work, error) {
	for guess := true; ; guess = false {
		h, from, err := b.history(ctx, w.instance, list, guess)
		if err != nil {
			return nil, err
		}
		item, err := b.judge(ctx, w, h, list, from != fromCache)
		if err != nil {
			return nil, err
		}
		if from != fromStorage && item.dropped > 0 {
			b.cache.forget(w.instance)
			continue
		}
		b.stats.dropped.Add(int64(item.dropped))
		// The owner before may have died between its commit and its messages.
		if !h.sent() {
			if err := b.resume(ctx, w.instance, h); err != nil {
				return nil, err
			}
		}
		if len(item.events) == 0 {
			b.finishWork(ctx, item)
			return nil, nil
		}
		if name, version := item.workflow(); !b.accepts(workkind.Orchestration, name, version) {
			b.park(workkind.Orchestration, name, version, list)
			b.sessions.done(w, list)
			b.offerAccepted(workkind.Orchestration, name, version)
			return nil, nil
		}
		return item, nil
	}
}

// workflow returns the name and version of the workflow that is to run.
func (w *work) workflow() (name, version string) {
	start := w.history.startEvent()
	for _, r := range w.events {
		if r.event.GetExecutionStarted() != nil {
			start = r.event
		}
	}
	x := start.GetExecutionStarted()
	return x.GetName(), x.GetVersion().GetValue()
}

// judge decides for each message whether to process, postpone or drop it.
func (b *Backend) judge(ctx context.Context, w *session, h *history, list []*received, fresh bool) (*work, error) {
	f := newFilter(b, w.instance, h, fresh)
	item := &work{session: w, messages: list, base: h, history: h}
	for _, r := range list {
		v, err := f.judge(ctx, r.message)
		if err != nil {
			return nil, err
		}
		if v == accept {
			if v, err = b.fill(ctx, w.instance, r.message); err != nil {
				return nil, err
			}
		}
		if f.h != item.history { // The workflow begins here: what came before was for the one that it replaces.
			item.dropped += len(item.events)
			item.events, item.history = nil, f.h
		}
		switch v {
		case accept:
			item.events = append(item.events, newRow{event: r.event, id: r.ID, blob: r.Blob})
			item.attempts = max(item.attempts, r.attempts)
		case postpone:
			item.postponed = append(item.postponed, r)
		case drop:
			item.dropped++
			if fresh && r.Blob != "" && r.Execution != "" && f.h.started() && r.Execution != f.h.ExecutionID {
				// It was written after the payloads of its execution were deleted.
				if err := b.payloads.delete(ctx, r.Blob); err != nil {
					b.log.Warn("cannot delete what an earlier execution has left", "instance", w.instance, "err",
						sdkerr.Short(err))
				}
			}
		}
	}
	return item, nil
}

// fill reads the payload of a message that is to be accepted. An event whose payload is lost is dropped, the completion
// of a task becomes its failure, and an instance without its input fails.
func (b *Backend) fill(ctx context.Context, instance string, m *message) (verdict, error) {
	err := b.payloads.fill(ctx, m)
	if !errors.Is(err, errNoPayload) && !errors.Is(err, errBadMessage) {
		return accept, err
	}
	if m.event.GetExecutionStarted() != nil {
		return drop, corrupt(instance, nil, err)
	}
	b.log.Error("the payload of an event cannot be read", "instance", instance, "type", m.Type, "err", err)
	if b.substitute(m, err) {
		return accept, nil
	}
	return drop, nil
}

// substitute replaces the result of a task that cannot be read by a failure, so that the workflow does not wait without
// a limit.
func (b *Backend) substitute(m *message, reason error) bool {
	at, failure := m.event.Timestamp.AsTime(), event.NewFailure(payloadLost, reason.Error())
	if c := event.ExtraOf(m.event).GetEntityOperationCompleted(); c != nil {
		x, err := operationFailed(c.RequestId, failure)
		if err != nil {
			return false
		}
		x.Timestamp = m.event.Timestamp
		if m.event, err = event.FromProtocol(x); err != nil {
			return false
		}
		m.Blob, m.Field = "", ""
		return true
	}
	id, ok := event.TaskOf(m.event)
	if !ok {
		return false
	}
	if m.event.GetTaskCompleted() != nil {
		m.event = event.New("taskFailed", -1, at)
		x := m.event.GetTaskFailed()
		x.TaskScheduledId, x.FailureDetails = id, failure
	} else {
		m.event = event.New("subOrchestrationInstanceFailed", -1, at)
		x := m.event.GetSubOrchestrationInstanceFailed()
		x.TaskScheduledId, x.FailureDetails = id, failure
	}
	m.Blob, m.Field = "", ""
	return true
}
