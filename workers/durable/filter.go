package durable

import (
	"context"
	"time"

	"github.com/lazuli-storage/lazuli/internal/durable/event"
)

// verdict is the decision about a received message.
type verdict int

const (
	accept   verdict = iota // its event is new
	drop                    // it is a copy, or its task or instance no longer exists
	postpone                // its instance has not started yet
)

// postponement is the time that a message waits for the start of its instance before the next look.
const postponement = time.Second

// filter decides which messages are new to the history. A start that replaces another instance resets h.
type filter struct {
	b        *Backend
	instance string
	h        *history
	// reset means that h was replaced by an empty history: the next commit starts a new history.
	reset    bool
	begins   string        // the execution whose start was accepted
	open     map[int32]int // tasks that are not completed, see openTasks
	ids      map[string]bool
	rowKnown bool
	fresh    bool // h and its row were read after the messages had come
}

func newFilter(b *Backend, instance string, h *history, fresh bool) *filter {
	return &filter{b: b, instance: instance, h: h, open: openTasks(h.events), ids: map[string]bool{}, fresh: fresh}
}

// judge decides one message. An error means that the decision could not be made now.
func (f *filter) judge(ctx context.Context, m *message) (verdict, error) {
	if m.event.GetExecutionStarted() != nil {
		return f.judgeStart(ctx, m)
	}
	if !f.h.started() && f.begins == "" {
		row, err := f.row(ctx)
		if err != nil {
			return postpone, err
		}
		if row != nil && !isFinal(row.status()) && m.Execution == "" {
			return postpone, nil // The start is on its way, or is to happen later.
		}
		return drop, nil
	}
	if f.begins == "" && f.h.completed() {
		if m.event.GetExecutionTerminated().GetRecurse() {
			return accept, nil // The engine passes it on to sub-orchestrations that still run.
		}
		return drop, nil
	}
	if m.Execution != "" {
		if m.Execution != f.h.ExecutionID {
			return drop, nil
		}
		if id, ok := event.TaskOf(m.event); ok {
			if f.open[id] == 0 || f.open[id] != m.Scheduled {
				return drop, nil
			}
			// Another result of the task among these messages is a copy.
			delete(f.open, id)
			return accept, nil
		}
	}
	if m.ID == "" || f.known(m.ID) {
		return drop, nil
	}
	f.ids[m.ID] = true
	return accept, nil
}

func (f *filter) known(id string) bool { return f.ids[id] || f.h.ids[id] || f.h.Seen.has(id) }

func (f *filter) row(ctx context.Context) (*instanceRow, error) {
	if f.h.row == nil && !f.rowKnown {
		row, err := f.b.instances.get(ctx, f.instance)
		if err != nil {
			return nil, err
		}
		f.h.row, f.rowKnown = row, true
	}
	return f.h.row, nil
}

// judgeStart decides a start. The row in Instances says which one created the instance: it is written before the
// message can be received. A start whose row is not there, or names another start, has been purged or replaced, or its
// sender got the error that the instance exists.
func (f *filter) judgeStart(ctx context.Context, m *message) (verdict, error) {
	execution := event.ExecutionOf(m.event)
	if execution == "" || f.begins == execution || f.h.StartID == execution || f.known(m.ID) {
		return drop, nil
	}
	// The row decides, and the one in memory may be older than the message.
	if !f.fresh {
		f.h.row, f.rowKnown = nil, false
	}
	row, err := f.row(ctx)
	if err != nil {
		return postpone, err
	}
	if row == nil || row.StartID != execution {
		return drop, nil
	}
	return f.begin(m, execution), nil
}

// begin accepts a start.
func (f *filter) begin(m *message, execution string) verdict {
	if f.h.started() {
		next := newHistory()
		next.sentinel = sentinel{Length: 0, Checkpoint: f.h.Checkpoint, Order: f.h.Order,
			Seen: f.h.Seen.with(f.b.clock.Now(), f.h.ids, f.h.confirmed.all())}
		// The ETag stays: the new history is committed in the place of the old one, and only if that is still there.
		next.etag, next.row, next.stale = f.h.etag, f.h.row, true
		f.h, f.reset = next, true
	}
	f.begins, f.open = execution, map[int32]int{}
	f.ids[m.ID] = true
	return accept
}
