package hub

import (
	"context"
	"time"

	"github.com/lazuli-storage/lazuli/internal/durable/event"
	"github.com/lazuli-storage/lazuli/internal/durable/inflight"
	"github.com/lazuli-storage/lazuli/internal/durable/record"
	"github.com/lazuli-storage/lazuli/internal/sdk/sdkerr"
)

// ownResult is the result of an activity that goes to its instance without a message in the queue, because this process
// has the instance's partition. The work item stays in its queue, hidden, until the result is in the history; if the
// process dies before, the activity runs again. A result that does not get there soon, or that this process gives up,
// becomes a message.
type ownResult struct {
	b     *Backend
	work  *activity
	timer *time.Timer
}

// ownResultFor is the time for which a result is in memory alone.
const ownResultFor = time.Second

// ownResult returns the result of an activity as a message that this process holds, or nil if it must be sent.
func (b *Backend) ownResult(w *activity, m *record.Message) *inflight.Received {
	i := record.PartitionOf(m.Instance, len(b.control))
	// Without the partition no session here takes the result, and a full buffer leaves it to the queue.
	if b.running() == nil || !b.leases.Owns(i) || b.sessions.Count(i) >= b.options.MaxBuffered {
		return nil
	}
	m.Type = event.Type(m.Parsed)
	own := &ownResult{b: b, work: w}
	r := inflight.NewOwn(m, b.control[i], i, own)
	own.timer = time.AfterFunc(ownResultFor, func() { own.keep(r) })
	return r
}

// keep makes a message of the result, which this process goes on to hold.
func (o *ownResult) keep(r *inflight.Received) {
	ctx, cancel := context.WithTimeout(o.b.life, checkpointTimeout)
	defer cancel()
	// Hide puts the message into the queue, through Send, and r holds it from then on.
	if err := r.Hide(ctx, o.b.options.Visibility, true); err != nil {
		o.b.log.Warn("cannot send the result of an activity; trying again", "instance", r.Instance, "err",
			sdkerr.Short(err))
		o.timer.Reset(ownResultFor)
		return
	}
	o.b.holder.Add(r)
}

// Send implements inflight.StandIn. Only once the message is in the queue may the work item go, which stands for it.
func (o *ownResult) Send(ctx context.Context, m *record.Message, d time.Duration) (inflight.Sent, error) {
	encoded := *m // a session may read m meanwhile
	return o.b.send(ctx, record.Outgoing{Message: &encoded, Delay: d})
}

// End deletes the work item, whose result is safe.
func (o *ownResult) End() {
	o.timer.Stop()
	o.b.deleteActivity(o.work)
}

// Drop forgets the result; the work item comes again.
func (o *ownResult) Drop() {
	o.timer.Stop()
	for _, r := range o.b.activities.remove(o.work) {
		r.Release()
	}
}
