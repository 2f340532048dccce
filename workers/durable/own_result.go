package durable

import (
	"context"
	"time"

	"github.com/lazuli-storage/lazuli/internal/durable/event"
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
func (b *Backend) ownResult(w *activity, m *message) *received {
	i := partitionOf(m.Instance, len(b.control))
	// Without the partition no session here takes the result, and a full buffer leaves it to the queue.
	if b.running() == nil || !b.leases.owns(i) || b.sessions.count(i) >= b.options.MaxBuffered {
		return nil
	}
	m.Type = event.Type(m.event)
	own := &ownResult{b: b, work: w}
	r := &received{message: m, queue: b.control[i], attempts: 1, partition: i, own: own}
	own.timer = time.AfterFunc(ownResultFor, func() { own.keep(r) })
	return r
}

// keep makes a message of the result, which this process goes on to hold.
func (o *ownResult) keep(r *received) {
	ctx, cancel := context.WithTimeout(o.b.life, checkpointTimeout)
	defer cancel()
	// hide puts the message into the queue, through send, and r holds it from then on.
	if err := r.hide(ctx, o.b.options.Visibility, true); err != nil {
		o.b.log.Warn("cannot send the result of an activity; trying again", "instance", r.Instance, "err", sdkerr.Short(err))
		o.timer.Reset(ownResultFor)
		return
	}
	o.b.holder.add(r)
}

// send makes a message of the result, which becomes visible after d. The caller holds r.mu.
func (o *ownResult) send(ctx context.Context, r *received, d time.Duration) error {
	s, err := o.b.send(ctx, outgoing{message: r.message, delay: d})
	if err != nil {
		return err
	}
	// From here on r is a message of the queue. Only then may the work item go, which has stood for the result.
	r.id, r.receipt, r.text, r.own = s.id, s.receipt, s.text, nil
	o.end()
	return nil
}

// end deletes the work item, whose result is safe.
func (o *ownResult) end() {
	o.timer.Stop()
	o.b.deleteActivity(o.work)
}

// drop forgets the result; the work item comes again.
func (o *ownResult) drop() {
	o.timer.Stop()
	for _, r := range o.b.activities.remove(o.work) {
		r.release()
	}
}
