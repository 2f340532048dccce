package chaos

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
)

const (
	// maxMessages is the number of messages that a queue has at most, maxUncertain how many of them may be there or not
	// before it is cleared.
	maxMessages  = 150
	maxUncertain = 20
	// settleTime is the time that a count of messages may be too high after a start, while the server loads the queue;
	// drainTime how long the last comparison waits for messages that are hidden.
	settleTime = 30 * time.Second
	drainTime  = 30 * time.Second
)

// message is the model of a message.
type message struct {
	texts   []string  // numbers of the text that it may have, the newest last
	past    []string  // texts that it had
	maybe   bool      // it may be there or not
	low     int64     // least dequeue count
	high    int64     // greatest dequeue count, with requests that may have happened
	hidden  time.Time // it is not delivered before
	id      string
	receipt string // a valid pop receipt, "" if none is known
	stale   string // a pop receipt that is not valid any more
}

// queueClient uses a queue.
type queueClient struct {
	name     string
	queue    *azqueue.QueueClient
	number   int
	messages map[string]*message // by the number that their text begins with
	gone     map[string]bool     // numbers of deleted ones
}

func newQueueClient(i int) *queueClient {
	return &queueClient{name: fmt.Sprint("chaos", i), messages: map[string]*message{}, gone: map[string]bool{}}
}

func (c *queueClient) connect(p *process) error {
	s, err := azqueue.NewServiceClientFromConnectionString(p.Connection,
		&azqueue.ClientOptions{ClientOptions: p.options()})
	if err != nil {
		return err
	}
	c.queue = s.NewQueueClient(c.name)
	return nil
}

func (c *queueClient) setup(ctx context.Context) error {
	_, err := c.queue.Create(ctx, nil)
	return err
}

// sample implements owner.
func (c *queueClient) sample(rnd *rand.Rand) []byte {
	numbers := slices.Sorted(maps.Keys(c.messages))
	if len(numbers) == 0 {
		return nil
	}
	number := numbers[rnd.IntN(len(numbers))]
	texts := c.messages[number].texts
	if text := messageText(number, texts[len(texts)-1]); len(text) >= 16 {
		return []byte(text)
	}
	return nil
}

func (c *queueClient) uncertain() (n int) {
	for _, m := range c.messages {
		if m.maybe {
			n++
		}
	}
	return n
}

func (c *queueClient) step(ctx context.Context, rnd *rand.Rand) error {
	c.number++
	switch n := rnd.IntN(100); {
	case n == 0 || c.uncertain() > maxUncertain:
		return c.clear(ctx)
	case n < 45 && len(c.messages) < maxMessages:
		return c.put(ctx, rnd)
	case n < 60:
		return c.get(ctx, rnd)
	case n < 65:
		return c.peek(ctx)
	}
	for number, m := range c.messages { // any: the order of a map is random
		switch {
		case m.maybe:
		case m.stale != "" && rnd.IntN(8) == 0:
			_, err := c.queue.DeleteMessage(ctx, m.id, m.stale, nil)
			return expect(err, "queue: a pop receipt that was replaced", http.StatusBadRequest, http.StatusNotFound)
		case m.receipt != "" && rnd.IntN(3) == 0:
			return c.update(ctx, number, m, rnd)
		case m.receipt != "":
			return c.remove(ctx, number, m)
		}
	}
	return c.get(ctx, rnd)
}

// split separates the number of a message from the rest of its text, which is the number of the write.
func split(s string) (number, write string) {
	number, rest, _ := strings.Cut(s, "/")
	write, padding, _ := strings.Cut(rest, "/")
	if messageText(number, write) != number+"/"+write+"/"+padding {
		return s, "damaged"
	}
	return number, write
}

func messageText(number, write string) string {
	n, _ := strconv.Atoi(write)
	return number + "/" + write + "/" + strings.Repeat("x"+write, n*31%80)
}

// put adds a message, which is hidden at first in one of four cases.
func (c *queueClient) put(ctx context.Context, rnd *rand.Rand) error {
	number := strconv.Itoa(c.number)
	m := &message{texts: []string{number}, maybe: true}
	c.messages[number] = m
	o := &azqueue.EnqueueMessageOptions{TimeToLive: to.Ptr(int32(-1))}
	if rnd.IntN(4) == 0 {
		o.VisibilityTimeout = to.Ptr(int32(1 + rnd.IntN(3)))
	}
	r, err := c.queue.EnqueueMessage(ctx, messageText(number, number), o)
	if err != nil {
		return err
	}
	m.maybe = false
	m.id, m.receipt, m.hidden = *r.Messages[0].MessageID, *r.Messages[0].PopReceipt, *r.Messages[0].TimeNextVisible
	return nil
}

func (c *queueClient) get(ctx context.Context, rnd *rand.Rand) error {
	r, err := c.queue.DequeueMessages(ctx,
		&azqueue.DequeueMessagesOptions{NumberOfMessages: to.Ptr(int32(1 + rnd.IntN(8))),
			VisibilityTimeout: to.Ptr(int32(1 + rnd.IntN(3)))})
	if err != nil {
		for _, m := range c.messages { // it may have been delivered
			m.high++
			m.receipt = ""
		}
		return err
	}
	for _, m := range r.Messages {
		if err := c.delivered(m); err != nil {
			return err
		}
	}
	return nil
}

// delivered checks a message that was received, and makes the model of it certain.
func (c *queueClient) delivered(got *azqueue.DequeuedMessage) error {
	number, write := split(*got.MessageText)
	m, err := c.compare(number, write, *got.DequeueCount, 1)
	if err != nil {
		return err
	}
	if now := time.Now(); now.Before(m.hidden) {
		return broken(Doubled, "queue: message %s of %s was delivered at %v, and is hidden until %v", number, c.name, now,
			m.hidden)
	}
	m.past = append(m.past, slices.DeleteFunc(slices.Clone(m.texts), func(s string) bool { return s == write })...)
	m.texts, m.maybe, m.low, m.high = []string{write}, false, *got.DequeueCount, *got.DequeueCount
	m.id, m.receipt, m.stale, m.hidden = *got.MessageID, *got.PopReceipt, m.receipt, *got.TimeNextVisible
	return nil
}

// compare compares a message with the model. more is by how much its dequeue count has grown.
func (c *queueClient) compare(number, write string, count, more int64) (*message, error) {
	m := c.messages[number]
	switch {
	case m == nil && c.gone[number]:
		return nil, broken(Resurrected, "queue: message %s of %s was deleted and is back", number, c.name)
	case m == nil:
		return nil, broken(Wrong, "queue: message %.80q of %s was never put", number, c.name)
	case slices.Contains(m.past, write) && !slices.Contains(m.texts, write):
		return nil, broken(Stale, "queue: message %s of %s has text %s, acknowledged was one of %q", number, c.name, write,
			m.texts)
	case !slices.Contains(m.texts, write):
		return nil, broken(Wrong, "queue: message %s of %s has text %s, which no request wrote", number, c.name, write)
	case count < m.low+more:
		return nil, broken(Stale, "queue: message %s of %s has dequeue count %d, at least %d is right", number, c.name, count,
			m.low+more)
	case count > m.high+more:
		return nil, broken(Doubled, "queue: message %s of %s has dequeue count %d, at most %d is right", number, c.name,
			count, m.high+more)
	}
	return m, nil
}

func (c *queueClient) peek(ctx context.Context) error {
	r, err := c.queue.PeekMessages(ctx, &azqueue.PeekMessagesOptions{NumberOfMessages: to.Ptr(int32(32))})
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, got := range r.Messages {
		number, write := split(*got.MessageText)
		if seen[number] {
			return broken(Doubled, "queue: message %s of %s is there twice", number, c.name)
		}
		seen[number] = true
		if _, err := c.compare(number, write, *got.DequeueCount, 0); err != nil {
			return err
		}
	}
	return nil
}

func (c *queueClient) update(ctx context.Context, number string, m *message, rnd *rand.Rand) error {
	write, receipt, id := strconv.Itoa(c.number), m.receipt, m.id
	before := m.texts
	m.texts, m.receipt, m.hidden = append(slices.Clone(before), write), "", time.Time{} // until it is acknowledged
	r, err := c.queue.UpdateMessage(ctx, id, receipt, messageText(number, write),
		&azqueue.UpdateMessageOptions{VisibilityTimeout: to.Ptr(int32(rnd.IntN(3)))})
	if err != nil {
		return err
	}
	m.past = append(m.past, before...)
	m.texts, m.receipt, m.stale, m.hidden = []string{write}, *r.PopReceipt, receipt, *r.TimeNextVisible
	return nil
}

func (c *queueClient) remove(ctx context.Context, number string, m *message) error {
	m.maybe = true
	receipt := m.receipt
	m.receipt = ""
	if _, err := c.queue.DeleteMessage(ctx, m.id, receipt, nil); err != nil {
		return err
	}
	c.forget(number)
	return nil
}

func (c *queueClient) clear(ctx context.Context) error {
	for _, m := range c.messages {
		m.maybe, m.receipt = true, ""
	}
	if _, err := c.queue.ClearMessages(ctx, nil); err != nil {
		return err
	}
	for number := range c.messages {
		c.forget(number)
	}
	return nil
}

func (c *queueClient) forget(number string) {
	delete(c.messages, number)
	c.gone[number] = true
}

// check compares the number of messages and those that are visible; final receives all of them.
func (c *queueClient) check(ctx context.Context, out *checker, final bool) {
	if final {
		out.add(c.drain(ctx))
		return
	}
	settle := settleTime
	if out.damaged {
		settle = 2 * time.Second
	}
	err := c.peek(ctx)
	if err == nil {
		err = c.count(ctx, settle)
	}
	out.add(err)
}

func (c *queueClient) count(ctx context.Context, settle time.Duration) error {
	least, most := len(c.messages)-c.uncertain(), len(c.messages)
	var got int
	err := wait(ctx, settle, func() (bool, error) {
		r, err := c.queue.GetProperties(ctx, nil)
		if err != nil {
			return false, err
		}
		got = int(*r.ApproximateMessagesCount)
		return got <= most, nil
	})
	switch {
	case err != nil:
		return err
	case got < least:
		return broken(Lost, "queue: %s has %d messages, at least %d were acknowledged", c.name, got, least)
	case got > most:
		return broken(Resurrected, "queue: %s has %d messages, at most %d are right", c.name, got, most)
	}
	return nil
}

// drain receives all messages.
func (c *queueClient) drain(ctx context.Context) error {
	err := wait(ctx, drainTime, func() (bool, error) {
		r, err := c.queue.DequeueMessages(ctx,
			&azqueue.DequeueMessagesOptions{NumberOfMessages: to.Ptr(int32(32)), VisibilityTimeout: to.Ptr(int32(3600))})
		if err != nil {
			return false, err
		}
		for _, m := range r.Messages {
			if err := c.delivered(m); err != nil {
				return false, err
			}
			number, _ := split(*m.MessageText)
			delete(c.messages, number)
			c.gone[number] = true // a second delivery is an error
		}
		return len(c.messages) == c.uncertain() && len(r.Messages) == 0, nil
	})
	if lost := len(c.messages) - c.uncertain(); err == nil && lost > 0 {
		return broken(Lost, "queue: %d acknowledged messages of %s were not delivered within %v", lost, c.name, drainTime)
	}
	return err
}

// wait calls done until it returns true or an error, or the time has passed, which is no error.
func wait(ctx context.Context, limit time.Duration, done func() (bool, error)) error {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(limit); ; {
		if ok, err := done(); ok || err != nil || time.Now().After(deadline) {
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
