package accountarchive

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/lazuli-storage/lazuli/internal/sdk/ptr"
	"github.com/lazuli-storage/lazuli/internal/sdk/queuetool"
)

// Message is a line of a queue's segment.
type Message struct {
	// Text is the message as it was put, in whatever encoding.
	Text     string    `json:"text"`
	ID       string    `json:"id"`
	Inserted time.Time `json:"inserted"`
	// Expires is absent for a message that does not expire.
	Expires  time.Time `json:"expires,omitzero"`
	Attempts int64     `json:"dequeueCount"`
	// Visible is the time at which a hidden message becomes visible.
	Visible time.Time `json:"nextVisible,omitzero"`
}

func (e *exporter) queues(ctx context.Context) (names []string, err error) {
	if e.account.Queues == nil {
		return nil, nil
	}
	pager := e.account.Queues.NewListQueuesPager(
		&azqueue.ListQueuesOptions{Include: azqueue.ListQueuesInclude{Metadata: true}})
	for pager.More() {
		page, err := pager.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, q := range page.Queues {
			names = append(names, ptr.Value(q.Name))
			if len(q.Metadata) > 0 {
				e.metadata[KindQueue+"/"+ptr.Value(q.Name)] = texts(q.Metadata)
			}
		}
	}
	return names, nil
}

// queue exports the messages of a queue that the protocol shows. It has one segment, which is written again after an
// interruption.
func (e *exporter) queue(ctx context.Context, r *Resource) error {
	// A queue has no place to continue from: messages have no order that a second peek would repeat. So it begins again.
	r.Segments, r.Missing, r.Policies = []Segment{}, nil, nil
	client := e.account.Queues.NewQueueClient(r.Name)
	properties, err := client.GetProperties(ctx, nil)
	if err != nil {
		return err
	}
	r.Metadata = e.metadata[KindQueue+"/"+r.Name]
	acl, err := client.GetAccessPolicy(ctx, nil)
	if err := e.policies(r, err); err != nil {
		return err
	}
	for _, p := range acl.SignedIdentifiers {
		q := ptr.Value(p.AccessPolicy)
		r.Policies = append(r.Policies, newPolicy(p.ID, q.Start, q.Expiry, q.Permission))
	}
	w := e.newSegmentWriter(r, "jsonl")
	defer w.abandon()
	write := func(m Message) error {
		line, err := json.Marshal(m)
		if err != nil {
			return err
		}
		if _, err := w.Write(append(line, '\n')); err != nil {
			return err
		}
		w.items++
		return nil
	}
	// Peek Messages shows 32 at most. Receiving shows all and hides them, which is why it has to be asked for.
	if e.Receive {
		err = e.receive(ctx, client, write)
	} else {
		err = peek(ctx, client, write)
	}
	if err != nil {
		return err
	}
	// Invisible messages cannot be read by any operation. The archive says how many are not in it.
	if n := int(ptr.Value(properties.ApproximateMessagesCount)); n > w.items {
		r.Missing = append(r.Missing, Missing{Item: fmt.Sprintf("%d of %d messages", n-w.items, n),
			Reason: "Peek Messages and Get Messages do not show them"})
	}
	return w.end()
}

// policies notes policies that the caller must not read, which is no reason to leave out the resource.
func (e *exporter) policies(r *Resource, err error) error {
	var re *azcore.ResponseError
	if errors.As(err, &re) && re.StatusCode == 403 {
		r.Missing = append(r.Missing, Missing{Item: "stored access policies", Reason: re.ErrorCode})
		return nil
	}
	return err
}

// newPolicy returns a stored access policy of any of the SDKs.
func newPolicy(id *string, start, expiry *time.Time, permission *string) Policy {
	return Policy{ID: ptr.Value(id), Start: ptr.Value(start), Expiry: ptr.Value(expiry), Permission: ptr.Value(permission)}
}

// visibility is the time that received messages are hidden. Receiving ends before the first of them becomes visible
// again.
const visibility = 10 * time.Minute

// receive writes all visible messages. They become visible again by themselves, with a dequeue count that is higher by
// one: giving them back earlier would need the text of all of them in memory, as the client library cannot update a
// message without its text.
func (e *exporter) receive(ctx context.Context, client *azqueue.QueueClient, write func(Message) error) (err error) {
	for end := e.Now().Add(visibility - time.Minute); e.Now().Before(end); {
		page, err := client.DequeueMessages(ctx,
			&azqueue.DequeueMessagesOptions{NumberOfMessages: to.Ptr[int32](32),
				VisibilityTimeout: to.Ptr(int32(visibility.Seconds()))})
		if err != nil || len(page.Messages) == 0 {
			return err
		}
		for _, m := range page.Messages {
			if err := write(Message{Text: ptr.Value(m.MessageText), ID: ptr.Value(m.MessageID),
				Inserted: ptr.Value(m.InsertionTime).UTC(),
				Expires:  expiry(ptr.Value(m.ExpirationTime)),
				Attempts: ptr.Value(m.DequeueCount) - 1}); err != nil {
				return err
			}
		}
	}
	return nil
}

// expiry is the zero time for messages that do not expire, whose expiry time is at the end of the calendar.
func expiry(t time.Time) time.Time {
	if t.Year() >= 9999 {
		return time.Time{}
	}
	return t.UTC()
}

// peek writes what Peek Messages shows: on Lazuli all messages, hidden ones included, elsewhere 32 visible ones.
func peek(ctx context.Context, client *azqueue.QueueClient, write func(Message) error) error {
	err := queuetool.PeekEach(ctx, client, func(m queuetool.Message) error {
		return write(Message{Text: m.Body, ID: m.ID, Inserted: m.Inserted.UTC(), Expires: expiry(m.Expires),
			Attempts: m.Attempts, Visible: m.NextVisible})
	})
	if !errors.Is(err, queuetool.ErrNoHidden) {
		return err
	}
	page, err := client.PeekMessages(ctx, &azqueue.PeekMessagesOptions{NumberOfMessages: to.Ptr[int32](32)})
	if err != nil {
		return err
	}
	for _, m := range page.Messages {
		if err := write(Message{Text: ptr.Value(m.MessageText), ID: ptr.Value(m.MessageID),
			Inserted: ptr.Value(m.InsertionTime).UTC(),
			Expires:  expiry(ptr.Value(m.ExpirationTime)),
			Attempts: ptr.Value(m.DequeueCount)}); err != nil {
			return err
		}
	}
	return nil
}
