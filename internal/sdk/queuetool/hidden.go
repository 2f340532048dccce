package queuetool

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/lazuli-storage/lazuli/internal/azure/longpoll"
	"github.com/lazuli-storage/lazuli/internal/sdk/ptr"
)

// ErrNoHidden: the service shows visible messages alone, as Azure does.
var ErrNoHidden = errors.New("this service does not show hidden messages; Lazuli does")

// PeekAll returns up to limit messages, at most 1,000, hidden ones included, in the order in which they become visible.
// It fails with ErrNoHidden on a service that is not Lazuli.
func PeekAll(ctx context.Context, client *azqueue.QueueClient, limit int) ([]Message, error) {
	// A service that does not know the header must not refuse the number before it has shown that.
	if _, _, err := peekHidden(ctx, client, 1, nil); err != nil {
		return nil, err
	}
	var all []Message
	for after, n := "", min(max(limit, 1), 1000); len(all) < n; {
		page, next, err := peekHidden(ctx, client, n-len(all), &after) // which ends early if the messages are large
		if err != nil {
			return nil, err
		}
		for i := range page {
			page[i].Body = Decode(page[i].Body)
		}
		if all, after = append(all, page...), next; after == "" {
			break
		}
	}
	return all, nil
}

// PeekEach calls fn for every message, hidden ones included, with bodies as they are in the queue. It fails with
// ErrNoHidden on a service that is not Lazuli.
func PeekEach(ctx context.Context, client *azqueue.QueueClient, fn func(Message) error) error {
	// A service that does not know the header must not refuse the number before it has shown that.
	if _, _, err := peekHidden(ctx, client, 1, nil); err != nil {
		return err
	}
	for after := ""; ; {
		messages, next, err := peekHidden(ctx, client, 1000, &after)
		if err != nil {
			return err
		}
		for _, m := range messages {
			if err := fn(m); err != nil {
				return err
			}
		}
		if after = next; after == "" {
			return nil
		}
	}
}

// PeekPage is PeekAll for the messages after the position that an earlier page returned; "" begins. The position of the
// last page is "".
func PeekPage(ctx context.Context, client *azqueue.QueueClient, limit int, after string) ([]Message, string, error) {
	messages, next, err := peekHidden(ctx, client, min(max(limit, 1), 1000), &after)
	for i := range messages {
		messages[i].Body = Decode(messages[i].Body)
	}
	return messages, next, err
}

func peekHidden(ctx context.Context, client *azqueue.QueueClient, n int, after *string) (messages []Message,
	next string, err error) {
	var answer *http.Response
	header := http.Header{longpoll.HiddenHeader: {longpoll.HiddenInclude}}
	if after != nil {
		header[longpoll.AfterHeader] = []string{*after}
	}
	ctx = policy.WithHTTPHeader(ctx, header)
	if _, err := client.PeekMessages(policy.WithCaptureResponse(ctx, &answer),
		&azqueue.PeekMessagesOptions{NumberOfMessages: to.Ptr(int32(n))}); err != nil {
		return nil, "", err
	}
	if answer == nil || answer.Header.Get(longpoll.HiddenHeader) == "" {
		return nil, "", ErrNoHidden
	}
	body, err := runtime.Payload(answer) // The SDK has read it and keeps it.
	if err != nil {
		return nil, "", err
	}
	var list struct {
		QueueMessage []struct {
			MessageId, InsertionTime, ExpirationTime, TimeNextVisible, MessageText string
			DequeueCount                                                           int64
		}
	}
	if err := xml.Unmarshal(body, &list); err != nil {
		return nil, "", fmt.Errorf("the list of messages: %w", err)
	}
	for _, m := range list.QueueMessage {
		messages = append(messages, Message{
			ID: m.MessageId, Inserted: httpTime(m.InsertionTime), Expires: httpTime(m.ExpirationTime),
			NextVisible: httpTime(m.TimeNextVisible),
			Attempts:    m.DequeueCount, Body: m.MessageText,
		})
	}
	return messages, answer.Header.Get(longpoll.PositionHeader), nil
}

// Counts are the numbers of messages of a queue.
type Counts struct {
	Total int
	// Visible is the number of visible ones, up to MaxVisible. On a service that is not Lazuli, it is Total.
	Visible int
	// SetAside is as in [Queue].
	SetAside int
}

// MaxVisible is the highest number of visible messages that [Count] returns.
const MaxVisible = 10_000

// Count returns how many messages a queue has.
func Count(ctx context.Context, client *azqueue.QueueClient) (n Counts, err error) {
	var answer *http.Response
	ctx = policy.WithHTTPHeader(ctx, http.Header{longpoll.HiddenHeader: {longpoll.HiddenInclude}})
	got, err := client.GetProperties(policy.WithCaptureResponse(ctx, &answer), nil)
	if err != nil {
		return n, err
	}
	n.Total = int(ptr.Value(got.ApproximateMessagesCount))
	if n.Visible, err = strconv.Atoi(answer.Header.Get(longpoll.VisibleHeader)); err != nil {
		n.Visible = n.Total
	}
	n.SetAside, _ = strconv.Atoi(answer.Header.Get(longpoll.SetAsideHeader)) // 0 if absent
	return n, nil
}

func httpTime(s string) time.Time {
	t, _ := time.Parse(http.TimeFormat, s)
	return t
}
