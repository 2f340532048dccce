package hub

import (
	"context"
	"time"

	"github.com/microsoft/durabletask-go/api"

	"github.com/lazuli-storage/lazuli/internal/durable/inflight"
	"github.com/lazuli-storage/lazuli/internal/durable/record"
	"github.com/lazuli-storage/lazuli/internal/sdk/sdkerr"
)

// isQuiet reports whether the row of an instance can be left for later: only its time and checkpoint change, or that a
// workflow has begun for which this process does not wait.
func (b *Backend) isQuiet(instance string, h *record.History, u record.Update) bool {
	r := h.Row
	switch {
	case r == nil || r.StartID != h.StartID || u.Completed != nil || u.Continued != nil || record.IsFinal(r.Status()):
		// These change what clients see: a row of another start, an end, the input of an execution that continues, and a
		// rewind of a row that still says that the instance has ended.
		return false
	case u.CustomStatus != nil && (r.CustomStatusBlobName != "" || r.CustomStatus != *u.CustomStatus):
		// Of a status in a blob the row has the name only, so that it counts as changed.
		return false
	}
	return r.RuntimeStatus == record.StatusName(u.Status) ||
		r.RuntimeStatus == record.StatusName(api.RUNTIME_STATUS_PENDING) &&
			u.Status == api.RUNTIME_STATUS_RUNNING && !b.watches.Waiting(instance)
}

// writeLate writes the row of an instance whose session the caller holds, if it was left for later.
func (b *Backend) writeLate(ctx context.Context, instance string) {
	h := b.late.Get(instance)
	if h == nil {
		return
	}
	if err := b.writeRow(ctx, instance, h, record.UpdateOf(h, b.clock.Now())); err != nil {
		if ctx.Err() == nil {
			b.log.Warn("cannot write the row of an instance; trying again", "instance", instance, "err", sdkerr.Short(err))
		}
		b.late.Again(instance)
	}
}

// writeRow writes the row of an instance whose session the caller holds.
func (b *Backend) writeRow(ctx context.Context, instance string, h *record.History, u record.Update) error {
	if err := b.instances.Write(ctx, instance, h, u); err != nil {
		return err
	}
	// The messages are deleted after the row is written: they are what brings the next owner here if it was not.
	b.deleteHandled(b.late.Written(instance))
	b.watches.Changed(instance)
	return nil
}

// deleteLater deletes a message that was handled, in the background; see deleting.later.
func (b *Backend) deleteLater(r *inflight.Received, deleted func()) {
	b.deleting.Later(b.life, b.log, r, deleted)
}

func (b *Backend) deleteHandled(list []inflight.Handled) {
	for _, m := range list {
		b.deleteLater(m.Received, m.Deleted)
	}
}

// settleTimeout limits the time for which a stop waits for rows and deletions.
const settleTimeout = 5 * time.Second

// endLate writes the rows that were left for later, before the backend stops. None is left for later from then on.
func (b *Backend) endLate() {
	// This comes first, so that no checkpoint that still runs adds a row to those that the loop waits for.
	b.late.Set(false)
	limit := time.Now().Add(settleTimeout)
	for b.late.Hurry() && time.Now().Before(limit) {
		time.Sleep(time.Millisecond)
	}
	b.giveBack(b.late.Unkept()) // of rows that could not be written; another process is to write them
}
