// Package queuetool looks into queues and moves their messages about, for people: what `lazuli queue` does.
//
// It works on any account through the official SDK, and so can only see what the service shows a client: visible
// messages, 32 at a time. Messages that a worker has in work are counted, not shown, except by Lazuli; see PeekAll.
package queuetool

import (
	"context"
	"encoding/base64"
	"encoding/xml"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2/queueerror"

	"github.com/lazuli-storage/lazuli/internal/azure/longpoll"
	"github.com/lazuli-storage/lazuli/internal/sdk/jobrow"
	"github.com/lazuli-storage/lazuli/internal/sdk/poison"
	"github.com/lazuli-storage/lazuli/internal/sdk/ptr"
)

// PoisonSuffix ends the name of a poison queue.
const PoisonSuffix = poison.Suffix

// page is the number of messages that the service gives at once.
const page = 32

// hold is for how long messages are hidden while they are moved or looked through.
const hold = 2 * time.Minute

// Queue is a queue at a glance.
type Queue struct {
	Name string `json:"name"`
	// Messages is the service's approximate count, with those in work.
	Messages int `json:"messages"`
	// SetAside is the number of messages that cannot be read because of damage, as far as the server knows. Only Lazuli
	// reports it.
	SetAside int `json:"setAside"`
	// Oldest is the time at which the first visible message was put; zero if none is visible.
	Oldest time.Time `json:"oldestVisible,omitzero"`
	// Unavailable is the reason why the service cannot read the queue, for example damage; "" if it can.
	Unavailable string `json:"unavailable,omitempty"`
}

// List returns the account's queues whose names begin with prefix, in the service's order.
func List(ctx context.Context, service *azqueue.ServiceClient, prefix string) ([]Queue, error) {
	queues, _, err := ListSome(ctx, service, prefix, math.MaxInt)
	return queues, err
}

// ListSome is List for the first max queues; left is the number of the others. With an error it returns the queues that
// it has read.
func ListSome(ctx context.Context, service *azqueue.ServiceClient, prefix string, max int) (queues []Queue, left int,
	err error) {
	pager := service.NewListQueuesPager(&azqueue.ListQueuesOptions{Prefix: &prefix})
	for pager.More() {
		got, err := pager.NextPage(ctx)
		if err != nil {
			return queues, left, err
		}
		for _, item := range got.Queues {
			if len(queues) >= max {
				left++
				continue
			}
			q, err := readQueue(ctx, service, ptr.Value(item.Name))
			if queueerror.HasCode(err, queueerror.QueueNotFound, queueerror.QueueBeingDeleted) {
				continue // Deleted meanwhile.
			}
			if err != nil {
				return queues, left, err
			}
			queues = append(queues, q)
		}
	}
	return queues, left, nil
}

// Read returns the number of messages of a queue, and when the first visible one was put.
func Read(ctx context.Context, service *azqueue.ServiceClient, name string) (Queue, error) {
	return readQueue(ctx, service, name)
}

func readQueue(ctx context.Context, service *azqueue.ServiceClient, name string) (Queue, error) {
	client := service.NewQueueClient(name)
	ctx = policy.WithRetryOptions(ctx, policy.RetryOptions{MaxRetries: 1, RetryDelay: 200 * time.Millisecond})
	var answer *http.Response
	properties, err := client.GetProperties(policy.WithCaptureResponse(ctx, &answer), nil)
	var refused *azcore.ResponseError
	if errors.As(err, &refused) && refused.StatusCode == http.StatusServiceUnavailable { // the other queues can be listed
		return Queue{Name: name, Unavailable: message(refused)}, nil
	}
	if err != nil {
		return Queue{}, err
	}
	q := Queue{Name: name, Messages: int(ptr.Value(properties.ApproximateMessagesCount))}
	if answer != nil {
		q.SetAside, _ = strconv.Atoi(answer.Header.Get(longpoll.SetAsideHeader)) // 0 if absent
	}
	first, err := client.PeekMessage(ctx, nil)
	if err == nil && len(first.Messages) > 0 {
		q.Oldest = ptr.Value(first.Messages[0].InsertionTime)
	}
	return q, err
}

// message returns the message of an error's XML body, without its further lines, or the error's code.
func message(err *azcore.ResponseError) string {
	var body struct{ Message string }
	if content, readErr := runtime.Payload(err.RawResponse); readErr == nil && xml.Unmarshal(content, &body) == nil {
		if first, _, _ := strings.Cut(body.Message, "\n"); first != "" {
			return first
		}
	}
	return err.ErrorCode
}

// Message is a message as people want to see it.
type Message struct {
	ID                string
	Inserted, Expires time.Time
	// NextVisible is the time at which a hidden message becomes visible; PeekAll alone knows it.
	NextVisible time.Time
	Attempts    int64
	// Body is the decoded text. A body that is not base64, or not text when decoded, is shown as it is in the queue.
	Body string
}

// Peek returns up to limit visible messages, at most 32, without hiding them from other clients.
func Peek(ctx context.Context, client *azqueue.QueueClient, limit int) ([]Message, error) {
	got, err := client.PeekMessages(ctx,
		&azqueue.PeekMessagesOptions{NumberOfMessages: to.Ptr(int32(min(max(limit, 1), page)))})
	if err != nil {
		return nil, err
	}
	var messages []Message
	for _, m := range got.Messages {
		messages = append(messages, Message{
			ID: ptr.Value(m.MessageID), Inserted: ptr.Value(m.InsertionTime), Expires: ptr.Value(m.ExpirationTime),
			Attempts: ptr.Value(m.DequeueCount),
			Body:     Decode(ptr.Value(m.MessageText)),
		})
	}
	return messages, nil
}

// Decode returns what a message's text stands for if it is base64 of printable text, and otherwise the text itself.
// (Some plain texts happen to be valid base64; of those hardly any decodes to printable text.)
// Of a job, it is the body.
func Decode(text string) string {
	_, text, _ = jobrow.ParseMark(text)
	decoded, err := base64.StdEncoding.DecodeString(text)
	if err != nil || !utf8.Valid(decoded) {
		return text
	}
	for _, r := range string(decoded) {
		if !unicode.IsPrint(r) && !unicode.IsSpace(r) {
			return text
		}
	}
	return string(decoded)
}

// PutOptions are the settings of a message to put.
type PutOptions struct {
	// Plain leaves the body as it is; otherwise it is written in base64, as Azure Functions and Lazuli's workers read it.
	Plain bool
	// Delay is the time that the message stays invisible; TTL its time to live: 0 is the service's seven days, a negative
	// one means that it does not expire.
	Delay, TTL time.Duration
	// Create makes the queue if it is not there.
	Create bool
}

// Put adds a message.
func Put(ctx context.Context, client *azqueue.QueueClient, body []byte, o PutOptions) error {
	text := string(body)
	if !o.Plain {
		text = base64.StdEncoding.EncodeToString(body)
	}
	options := &azqueue.EnqueueMessageOptions{VisibilityTimeout: to.Ptr(int32(o.Delay / time.Second))}
	switch {
	case o.TTL > 0:
		options.TimeToLive = to.Ptr(int32(o.TTL / time.Second))
	case o.TTL < 0:
		options.TimeToLive = to.Ptr(int32(-1))
	}
	_, err := client.EnqueueMessage(ctx, text, options)
	if o.Create && queueerror.HasCode(err, queueerror.QueueNotFound) {
		if _, err := client.Create(ctx, nil); err != nil && !queueerror.HasCode(err, queueerror.QueueAlreadyExists) {
			return err
		}
		_, err = client.EnqueueMessage(ctx, text, options)
	}
	return err
}

// Purge deletes messages and returns how many. Without a filter it clears the queue, messages in work included, and
// returns -1: the service does not say how many there were.
func Purge(ctx context.Context, client *azqueue.QueueClient, f Filter) (int, error) {
	if f.All() {
		if _, err := client.ClearMessages(ctx, nil); err != nil {
			return -1, err
		}
		return -1, f.Reasons.forgetAll(ctx)
	}
	return sweep(ctx, client, f, func(m *azqueue.DequeuedMessage) error {
		if _, err := client.DeleteMessage(ctx, ptr.Value(m.MessageID), ptr.Value(m.PopReceipt), nil); err != nil {
			return err
		}
		return f.Reasons.forget(ctx, ptr.Value(m.MessageID))
	})
}

// Origin returns the queue that a poison queue belongs to.
func Origin(poison string) (string, error) {
	origin, ok := strings.CutSuffix(poison, PoisonSuffix)
	if !ok || origin == "" {
		return "", fmt.Errorf("%q does not end with %s: say where its messages should go", poison, PoisonSuffix)
	}
	return origin, nil
}

// Requeue moves messages from one queue to another, which must exist, and returns how many. Each is put first and
// deleted after: if it is interrupted in between, a message is in both queues, never in neither. The dequeue count of
// moved messages restarts, and they live for the service's seven days; they become visible after delay. What was
// recorded of them goes.
func Requeue(ctx context.Context, from, to *azqueue.QueueClient, f Filter, delay time.Duration) (int, error) {
	hidden := int32(delay / time.Second)
	return sweep(ctx, from, f, func(m *azqueue.DequeuedMessage) error {
		if _, err := to.EnqueueMessage(ctx, ptr.Value(m.MessageText),
			&azqueue.EnqueueMessageOptions{VisibilityTimeout: &hidden}); err != nil {
			return err
		}
		if _, err := from.DeleteMessage(ctx, ptr.Value(m.MessageID), ptr.Value(m.PopReceipt), nil); err != nil {
			return err
		}
		return f.Reasons.forget(ctx, ptr.Value(m.MessageID))
	})
}

// RequeueToSources moves messages of a poison queue that several queues share, such as that of all table triggers, each
// to the queue that its record names, which is created if it does not exist. It stops at a message without a record.
// f.Reasons has the records.
func RequeueToSources(ctx context.Context, service *azqueue.ServiceClient, from string, f Filter,
	delay time.Duration) (int, error) {
	hidden, source := int32(delay/time.Second), service.NewQueueClient(from)
	return sweep(ctx, source, f, func(m *azqueue.DequeuedMessage) error {
		if err := f.Reasons.Read(ctx, ptr.Value(m.MessageID)); err != nil {
			return err
		}
		record, _ := f.Reasons.Of(ptr.Value(m.MessageID))
		if record.Source == "" {
			return errors.New("it was not recorded from which queue the message came: say where it should go")
		}
		to := service.NewQueueClient(record.Source)
		if _, err := to.Create(ctx, nil); err != nil && !queueerror.HasCode(err, queueerror.QueueAlreadyExists) {
			return err
		}
		if _, err := to.EnqueueMessage(ctx, ptr.Value(m.MessageText),
			&azqueue.EnqueueMessageOptions{VisibilityTimeout: &hidden}); err != nil {
			return err
		}
		if _, err := source.DeleteMessage(ctx, ptr.Value(m.MessageID), ptr.Value(m.PopReceipt), nil); err != nil {
			return err
		}
		return f.Reasons.forget(ctx, ptr.Value(m.MessageID))
	})
}

// Shared reports whether a poison queue is one that the functions of all blob or table triggers share.
func Shared(queue string) bool {
	return queue == "webjobs-blobtrigger"+PoisonSuffix || queue == "webjobs-tabletrigger"+PoisonSuffix
}

// sweep takes the visible messages one after another and acts on those that the filter chooses. The others are hidden
// until it has been through the queue, and made visible again at the end, with one attempt more on their count. It
// takes no more messages than the queue has when it begins: a worker may put those that it moves back meanwhile.
func sweep(ctx context.Context, client *azqueue.QueueClient, f Filter, act func(*azqueue.DequeuedMessage) error) (n int,
	err error) {
	var passed []*azqueue.DequeuedMessage
	defer func() {
		back := context.WithoutCancel(ctx)
		for _, m := range passed {
			_, e := client.UpdateMessage(back, ptr.Value(m.MessageID), ptr.Value(m.PopReceipt), ptr.Value(m.MessageText),
				&azqueue.UpdateMessageOptions{VisibilityTimeout: to.Ptr[int32](0)})
			if e != nil && !queueerror.HasCode(e, queueerror.MessageNotFound, queueerror.PopReceiptMismatch) {
				err = errors.Join(err, fmt.Errorf("give back message %s: %w", ptr.Value(m.MessageID), e))
			}
		}
	}()
	if n := len(f.IDs); n > 0 {
		f.Limit = n
	}
	// The count is approximate, but not lower than the number of messages.
	properties, err := client.GetProperties(ctx, nil)
	if err != nil {
		return 0, err
	}
	for left := ptr.Value(properties.ApproximateMessagesCount); left > 0 && (f.Limit == 0 || n < f.Limit); {
		got, err := client.DequeueMessages(ctx,
			&azqueue.DequeueMessagesOptions{NumberOfMessages: to.Ptr(int32(min(page, left))),
				VisibilityTimeout: to.Ptr(int32(hold / time.Second))})
		if err != nil {
			return n, err
		}
		if len(got.Messages) == 0 {
			return n, nil
		}
		left -= int64(len(got.Messages))
		if f.needsReasons() {
			if err := f.Reasons.readDequeued(ctx, got.Messages); err != nil {
				passed = append(passed, got.Messages...)
				return n, err
			}
		}
		for i, m := range got.Messages {
			chosen := (f.Limit == 0 || n < f.Limit) && f.chooses(ptr.Value(m.MessageID), Decode(ptr.Value(m.MessageText)))
			if !chosen {
				passed = append(passed, m)
				continue
			}
			if err := act(m); err != nil {
				passed = append(passed, got.Messages[i:]...)
				return n, fmt.Errorf("message %s: %w", ptr.Value(m.MessageID), err)
			}
			n++
		}
	}
	return n, nil
}
