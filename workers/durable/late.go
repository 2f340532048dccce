package durable

import (
	"context"
	"sync"
	"time"

	"github.com/microsoft/durabletask-go/api"

	"github.com/lazuli-storage/lazuli/internal/sdk/sdkerr"
)

// rowLinger is the time for which the row of a workflow that goes on may be behind its history. The row of one that
// ends is written in its last checkpoint.
const rowLinger = 250 * time.Millisecond

// lateRows are the rows in Instances that a checkpoint has left for later, because they say nothing new to clients. The
// next checkpoint of an instance that comes soon enough writes one row for both. Until then the messages that caused
// the checkpoints are kept: if the process dies before, they come again, and the next owner sends what the last
// checkpoint had to send once more, which receivers drop, and writes the row.
type lateRows struct {
	sessions *sessions

	mu   sync.Mutex // guards the rest
	open bool       // between the backend's Start and Stop
	list map[string]*lateRow
}

// lateRow is the history that a row is behind. It belongs to the instance's session.
type lateRow struct {
	h     *history
	timer *time.Timer
	due   bool      // the next checkpoint writes the row
	kept  []handled // messages that are deleted when the row is written
}

// handled is a message that has no effect any more, and what is to be called when it is deleted.
type handled struct {
	*received
	deleted func()
}

func (l *lateRows) set(open bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open = open
}

// put leaves a row for later, and reports false if it is to be written now.
func (l *lateRows) put(instance string, h *history) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.open {
		return false
	}
	w := l.list[instance]
	switch {
	case w == nil:
		w = &lateRow{}
		w.timer = time.AfterFunc(rowLinger, func() { l.expired(instance, w) })
		l.list[instance] = w
	case w.due:
		// The session was woken to write this row. Left once more, the row of a busy workflow would stay behind without a
		// limit.
		return false
	}
	// The timer runs from the first checkpoint that has left the row: a later one replaces the history, not the time.
	w.h = h
	return true
}

// expired has the row written as soon as the session is free.
func (l *lateRows) expired(instance string, w *lateRow) {
	l.mu.Lock()
	w.due = true
	l.mu.Unlock()
	l.sessions.wake(instance)
}

// get returns the history that an instance's row is behind, or nil.
func (l *lateRows) get(instance string) *history {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w := l.list[instance]; w != nil {
		return w.h
	}
	return nil
}

// keep keeps messages until the row of an instance is written. It is false if rows are not left for later any more.
func (l *lateRows) keep(instance string, list []handled) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.list[instance]
	// Once the stop has begun, endLate may have collected what was kept already. So the caller has to give the messages
	// back.
	if w == nil || !l.open {
		return false
	}
	w.kept = append(w.kept, list...)
	return true
}

// written removes an instance whose row is as new as its history, and returns the messages that were kept for it.
func (l *lateRows) written(instance string) []handled {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.list[instance]
	if w == nil {
		return nil
	}
	// A timer that has just fired wakes the session once more, which then finds no row to write.
	w.timer.Stop()
	delete(l.list, instance)
	return w.kept
}

// again makes a row that could not be written be tried again later.
func (l *lateRows) again(instance string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w := l.list[instance]; w != nil {
		w.timer.Reset(time.Second)
	}
}

// unkept removes and returns the messages that are kept for rows.
func (l *lateRows) unkept() (list []*received) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range l.list {
		for _, m := range w.kept {
			list = append(list, m.received)
		}
		w.kept = nil
	}
	return list
}

// hurryOne makes the session of an instance write its row now.
func (l *lateRows) hurryOne(instance string) {
	if l.get(instance) != nil {
		l.sessions.wake(instance)
	}
}

// hurry makes the sessions write their rows now, and reports whether there are any.
func (l *lateRows) hurry() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for instance := range l.list {
		l.sessions.wake(instance)
	}
	return len(l.list) > 0
}

// isQuiet reports whether the row of an instance can be left for later: only its time and checkpoint change, or that a
// workflow has begun for which this process does not wait.
func (b *Backend) isQuiet(instance string, h *history, u update) bool {
	r := h.row
	switch {
	case r == nil || r.StartID != h.StartID || u.completed != nil || u.continued != nil || isFinal(r.status()):
		// These change what clients see: a row of another start, an end, the input of an execution that continues, and a
		// rewind of a row that still says that the instance has ended.
		return false
	case u.customStatus != nil && (r.CustomStatusBlobName != "" || r.CustomStatus != *u.customStatus):
		// Of a status in a blob the row has the name only, so that it counts as changed.
		return false
	}
	return r.RuntimeStatus == StatusName(u.status) ||
		r.RuntimeStatus == StatusName(api.RUNTIME_STATUS_PENDING) &&
			u.status == api.RUNTIME_STATUS_RUNNING && !b.watches.waiting(instance)
}

// writeLate writes the row of an instance whose session the caller holds, if it was left for later.
func (b *Backend) writeLate(ctx context.Context, instance string) {
	h := b.late.get(instance)
	if h == nil {
		return
	}
	if err := b.writeRow(ctx, instance, h, updateOf(h, b.clock.Now())); err != nil {
		if ctx.Err() == nil {
			b.log.Warn("cannot write the row of an instance; trying again", "instance", instance, "err", sdkerr.Short(err))
		}
		b.late.again(instance)
	}
}

// writeRow writes the row of an instance whose session the caller holds.
func (b *Backend) writeRow(ctx context.Context, instance string, h *history, u update) error {
	if err := b.instances.write(ctx, instance, h, u); err != nil {
		return err
	}
	// The messages are deleted after the row is written: they are what brings the next owner here if it was not.
	b.deleteHandled(b.late.written(instance))
	b.watches.changed(instance)
	return nil
}

func (b *Backend) deleteHandled(list []handled) {
	for _, m := range list {
		b.deleteLater(m.received, m.deleted)
	}
}

// settleTimeout limits the time for which a stop waits for rows and deletions.
const settleTimeout = 5 * time.Second

// endLate writes the rows that were left for later, before the backend stops. None is left for later from then on.
func (b *Backend) endLate() {
	// This comes first, so that no checkpoint that still runs adds a row to those that the loop waits for.
	b.late.set(false)
	limit := time.Now().Add(settleTimeout)
	for b.late.hurry() && time.Now().Before(limit) {
		time.Sleep(time.Millisecond)
	}
	b.giveBack(b.late.unkept()) // of rows that could not be written; another process is to write them
}
