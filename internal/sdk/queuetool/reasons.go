package queuetool

import (
	"context"
	"regexp"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"

	"github.com/lazuli-storage/lazuli/internal/sdk/poison"
)

// Reasons say why the messages of a poison queue are there, as far as it was recorded. Nil knows of nothing.
type Reasons struct {
	tables *aztables.ServiceClient
	queue  string
	byID   map[string]poison.Record
}

// ReadReasons reads what was recorded of a poison queue's messages. tables may be nil.
func ReadReasons(ctx context.Context, tables *aztables.ServiceClient, queue string) (*Reasons, error) {
	if tables == nil {
		return nil, nil
	}
	records, err := poison.Read(ctx, tables, queue)
	if err != nil {
		return nil, err
	}
	return &Reasons{tables, queue, records}, nil
}

// Of returns what was recorded of a message.
func (r *Reasons) Of(id string) (poison.Record, bool) {
	if r == nil {
		return poison.Record{}, false
	}
	record, ok := r.byID[id]
	return record, ok
}

// forget removes the record of a message that has left the queue.
func (r *Reasons) forget(ctx context.Context, id string) error {
	if _, ok := r.Of(id); !ok {
		return nil
	}
	return poison.Remove(ctx, r.tables, r.queue, id)
}

// forgetAll removes all records, after a queue was cleared.
func (r *Reasons) forgetAll(ctx context.Context) error {
	if r == nil {
		return nil
	}
	for id := range r.byID {
		if err := r.forget(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// Filter chooses messages. The zero value chooses all. Messages of which nothing was recorded are not chosen by a Filter that asks
// for a reason, a function or a time.
type Filter struct {
	// Match, if set, must match the decoded body.
	Match *regexp.Regexp
	// ID, if set, is the message's.
	ID string
	// Reason, if set, must match the recorded reason, last error or stack.
	Reason *regexp.Regexp
	// Function, if set, is the function that gave the message up.
	Function string
	// Before, if set, is a time before which the message was given up.
	Before time.Time
	// Limit, if not 0, is how many messages are chosen at most.
	Limit int
	// Reasons are the records of the queue.
	Reasons *Reasons
}

// chooses reports whether the filter wants a message.
func (f *Filter) chooses(id, body string) bool {
	if f.ID != "" && f.ID != id || f.Match != nil && !f.Match.MatchString(body) {
		return false
	}
	if f.Reason == nil && f.Function == "" && f.Before.IsZero() {
		return true
	}
	r, ok := f.Reasons.Of(id)
	return ok &&
		(f.Reason == nil || f.Reason.MatchString(r.Reason) || f.Reason.MatchString(r.LastError) || f.Reason.MatchString(r.Stack)) &&
		(f.Function == "" || f.Function == r.Function) &&
		(f.Before.IsZero() || r.Poisoned.Before(f.Before))
}

// All reports whether the filter chooses all messages.
func (f *Filter) All() bool {
	return f.Match == nil && f.ID == "" && f.Reason == nil && f.Function == "" && f.Before.IsZero() && f.Limit == 0
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
