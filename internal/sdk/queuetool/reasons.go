package queuetool

import (
	"context"
	"regexp"
	"slices"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/lazuli-storage/lazuli/internal/sdk/poison"
	"github.com/lazuli-storage/lazuli/internal/sdk/ptr"
)

// Reasons say why messages of a poison queue are there, as far as it was recorded. It holds the records of the messages
// that were read last, so that its size does not depend on the queue's. Nil knows of nothing.
type Reasons struct {
	tables *aztables.ServiceClient
	queue  string
	byID   map[string]*poison.Record
}

// NewReasons returns the Reasons of a poison queue. They are nil if tables is nil.
func NewReasons(tables *aztables.ServiceClient, queue string) *Reasons {
	if tables == nil {
		return nil
	}
	return &Reasons{tables: tables, queue: queue}
}

// Read reads what was recorded of messages, and forgets what it read before.
func (r *Reasons) Read(ctx context.Context, ids ...string) error {
	if r == nil {
		return nil
	}
	r.byID = make(map[string]*poison.Record, len(ids))
	for _, id := range ids {
		record, err := poison.Read(ctx, r.tables, r.queue, id)
		if err != nil {
			return err
		}
		if record != nil {
			r.byID[id] = record
		}
	}
	return nil
}

// ReadOf is Read for a list of messages.
func (r *Reasons) ReadOf(ctx context.Context, messages []Message) error {
	ids := make([]string, len(messages))
	for i, m := range messages {
		ids[i] = m.ID
	}
	return r.Read(ctx, ids...)
}

func (r *Reasons) readDequeued(ctx context.Context, messages []*azqueue.DequeuedMessage) error {
	ids := make([]string, len(messages))
	for i, m := range messages {
		ids[i] = ptr.Value(m.MessageID)
	}
	return r.Read(ctx, ids...)
}

// Of returns what was recorded of a message that was read.
func (r *Reasons) Of(id string) (poison.Record, bool) {
	if r == nil {
		return poison.Record{}, false
	}
	if record := r.byID[id]; record != nil {
		return *record, true
	}
	return poison.Record{}, false
}

// forget removes the record of a message that has left the queue.
func (r *Reasons) forget(ctx context.Context, id string) error {
	if r == nil {
		return nil
	}
	return poison.Remove(ctx, r.tables, r.queue, id)
}

// forgetAll removes all records, after a queue was cleared.
func (r *Reasons) forgetAll(ctx context.Context) error {
	if r == nil {
		return nil
	}
	for record, err := range poison.All(ctx, r.tables, r.queue) {
		if err == nil {
			err = r.forget(ctx, record.ID)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Filter chooses messages. The zero value chooses all. Messages of which nothing was recorded are not chosen by a
// Filter that asks for a reason, a function or a time.
type Filter struct {
	// Match, if set, must match the decoded body.
	Match *regexp.Regexp
	// IDs, if set, has the message's.
	IDs []string
	// Reason, if set, must match the recorded reason, last error or stack.
	Reason *regexp.Regexp
	// Function, if set, is the function that gave the message up.
	Function string
	// Before, if set, is a time before which the message was given up.
	Before time.Time
	// Limit, if not 0, is how many messages are chosen at most.
	Limit int
	// Reasons are the records of the queue. Of uses those that were read.
	Reasons *Reasons
}

// needsReasons reports whether the filter depends on what was recorded.
func (f *Filter) needsReasons() bool {
	return f.Reason != nil || f.Function != "" || !f.Before.IsZero()
}

// chooses reports whether the filter wants a message.
func (f *Filter) chooses(id, body string) bool {
	if len(f.IDs) > 0 && !slices.Contains(f.IDs, id) || f.Match != nil && !f.Match.MatchString(body) {
		return false
	}
	if !f.needsReasons() {
		return true
	}
	r, ok := f.Reasons.Of(id)
	return ok &&
		(f.Reason == nil || f.Reason.MatchString(r.Reason) || f.Reason.MatchString(r.LastError) ||
			f.Reason.MatchString(r.Stack)) &&
		(f.Function == "" || f.Function == r.Function) &&
		(f.Before.IsZero() || r.Poisoned.Before(f.Before))
}

// All reports whether the filter chooses all messages.
func (f *Filter) All() bool {
	return f.Match == nil && len(f.IDs) == 0 && !f.needsReasons() && f.Limit == 0
}

// Of returns the messages that the filter chooses, in their order.
func (f *Filter) Of(messages []Message) []Message {
	var chosen []Message
	for _, m := range messages {
		if (f.Limit == 0 || len(chosen) < f.Limit) && f.chooses(m.ID, m.Body) {
			chosen = append(chosen, m)
		}
	}
	return chosen
}
