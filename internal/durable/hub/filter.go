package hub

import (
	"context"
	"time"

	"github.com/lazuli-storage/lazuli/internal/durable/event"
	"github.com/lazuli-storage/lazuli/internal/durable/record"
)

// Verdict is the decision about a received message.
type Verdict int

const (
	Accept   Verdict = iota // its event is new
	Drop                    // it is a copy, or its task or instance no longer exists
	postpone                // its instance has not started yet
)

// postponement is the time that a message waits for the start of its instance before the next look.
const postponement = time.Second

// filter decides which messages are new to the history. A start that replaces another instance resets h.
type filter struct {
	b        *Backend
	instance string
	h        *record.History
	// reset means that h was replaced by an empty history: the next commit starts a new history.
	reset    bool
	begins   string        // the execution whose start was accepted
	Open     map[int32]int // tasks that are not completed, see OpenTasks
	ids      map[string]bool
	rowKnown bool
	fresh    bool // h and its row were read after the messages had come
}

func NewFilter(b *Backend, instance string, h *record.History, fresh bool) *filter {
	return &filter{b: b, instance: instance, h: h, Open: record.OpenTasks(h.Events), ids: map[string]bool{}, fresh: fresh}
}

// Judge decides one message. An error means that the decision could not be made now.
func (f *filter) Judge(ctx context.Context, m *record.Message) (Verdict, error) {
	if m.Parsed.GetExecutionStarted() != nil {
		return f.judgeStart(ctx, m)
	}
	if !f.h.Started() && f.begins == "" {
		row, err := f.row(ctx)
		if err != nil {
			return postpone, err
		}
		if row != nil && !record.IsFinal(row.Status()) && m.Execution == "" {
			return postpone, nil // The start is on its way, or is to happen later.
		}
		return Drop, nil
	}
	if f.begins == "" && f.h.Completed() {
		if m.Parsed.GetExecutionTerminated().GetRecurse() {
			return Accept, nil // The engine passes it on to sub-orchestrations that still run.
		}
		return Drop, nil
	}
	if m.Execution != "" {
		if m.Execution != f.h.ExecutionID {
			return Drop, nil
		}
		if id, ok := event.TaskOf(m.Parsed); ok {
			if f.Open[id] == 0 || f.Open[id] != m.Scheduled {
				return Drop, nil
			}
			// Another result of the task among these messages is a copy.
			delete(f.Open, id)
			return Accept, nil
		}
	}
	if m.ID == "" || f.known(m.ID) {
		return Drop, nil
	}
	f.ids[m.ID] = true
	return Accept, nil
}

func (f *filter) known(id string) bool { return f.ids[id] || f.h.IDs[id] || f.h.Seen.Has(id) }

func (f *filter) row(ctx context.Context) (*record.InstanceRow, error) {
	if f.h.Row == nil && !f.rowKnown {
		row, err := f.b.instances.Get(ctx, f.instance)
		if err != nil {
			return nil, err
		}
		f.h.Row, f.rowKnown = row, true
	}
	return f.h.Row, nil
}

// judgeStart decides a start. The row in Instances says which one created the instance: it is written before the
// message can be received. A start whose row is not there, or names another start, has been purged or replaced, or its
// sender got the error that the instance exists.
func (f *filter) judgeStart(ctx context.Context, m *record.Message) (Verdict, error) {
	execution := event.ExecutionOf(m.Parsed)
	if execution == "" || f.begins == execution || f.h.StartID == execution || f.known(m.ID) {
		return Drop, nil
	}
	// The row decides, and the one in memory may be older than the message.
	if !f.fresh {
		f.h.Row, f.rowKnown = nil, false
	}
	row, err := f.row(ctx)
	if err != nil {
		return postpone, err
	}
	if row == nil || row.StartID != execution {
		return Drop, nil
	}
	return f.begin(m, execution), nil
}

// begin accepts a start.
func (f *filter) begin(m *record.Message, execution string) Verdict {
	if f.h.Started() {
		next := record.NewHistory()
		next.Sentinel = record.Sentinel{Length: 0, Checkpoint: f.h.Checkpoint, Order: f.h.Order,
			Seen: f.h.Seen.With(f.b.clock.Now(), f.h.IDs, f.h.Confirmed.All())}
		// The ETag stays: the new history is committed in the place of the old one, and only if that is still there.
		next.Etag, next.Row, next.Stale = f.h.Etag, f.h.Row, true
		f.h, f.reset = next, true
	}
	f.begins, f.Open = execution, map[int32]int{}
	f.ids[m.ID] = true
	return Accept
}
