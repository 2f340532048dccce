package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/killrig"
)

const (
	// hiddenFor is the visibility timeout of messages that are received.
	hiddenFor = 4 * time.Second
	// drainPatience is the time that the last messages may take to appear.
	drainPatience = time.Minute
	// createPatience is the time that the queue may take to be created on a young cluster.
	createPatience = time.Minute
)

// sharedQueue is one queue that all clients use through all nodes, with the history of each message. Each message has a
// text of its own.
type sharedQueue struct {
	queues []*azqueue.QueueClient // by node
	think  time.Duration          // limit of the pause after a request

	outcomes
	// What follows is guarded by outcomes.mu.
	next     int
	messages map[string]*sharedMessage
	puts     int64 // acknowledged requests
	gets     int64
	deletes  int64
}

// sharedMessage holds what is known of a message.
type sharedMessage struct {
	put     bool   // its put was acknowledged
	id      string // of the first delivery
	given   []delivery
	deleted time.Time // when a delete was acknowledged; zero if not
	maybe   bool      // a delete was sent whose outcome is not known
}

// delivery is one delivery of a message. Answers can arrive in another order than they were made, so the dequeue count
// orders them.
type delivery struct {
	count  int64
	hidden time.Time // no later delivery may be made before
	came   time.Time // it was made before
}

// conflicts returns an earlier or a later delivery that contradicts d: one of the same count, or the second of the two
// came while the first hid the message.
func (m *sharedMessage) conflicts(d delivery) (other delivery, found bool) {
	for _, o := range m.given {
		first, second := o, d
		if d.count < o.count {
			first, second = d, o
		}
		if first.count == second.count || second.came.Before(first.hidden) {
			return o, true
		}
	}
	return delivery{}, false
}

func newSharedQueue(nodes []*killrig.Node, think time.Duration) (*sharedQueue, error) {
	q := &sharedQueue{think: think, messages: map[string]*sharedMessage{}}
	for _, n := range nodes {
		connection := fmt.Sprintf("DefaultEndpointsProtocol=http;AccountName=%s;AccountKey=%s;QueueEndpoint=http://%s/%[1]s;",
			auth.DevelopmentAccount, auth.DevelopmentKey, n.Queue)
		s, err := azqueue.NewServiceClientFromConnectionString(connection, &azqueue.ClientOptions{
			ClientOptions: azcore.ClientOptions{Transport: n.HTTP, Retry: policy.RetryOptions{MaxRetries: -1}}})
		if err != nil {
			return nil, err
		}
		q.queues = append(q.queues, s.NewQueueClient("chaos"))
	}
	return q, nil
}

func (q *sharedQueue) create(ctx context.Context) error {
	var err error
	_ = wait(ctx, createPatience, func() (bool, error) {
		_, err = q.queues[0].Create(ctx, nil)
		return err == nil, nil
	})
	return err
}

func (q *sharedQueue) acknowledged() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.puts + q.gets + q.deletes
}

// any returns the queue through any node.
func (q *sharedQueue) any(rnd *rand.Rand) *azqueue.QueueClient {
	return q.queues[rnd.IntN(len(q.queues))]
}

// produce puts messages until ctx is done.
func (q *sharedQueue) produce(ctx context.Context, rnd *rand.Rand) {
	for ctx.Err() == nil {
		q.mu.Lock()
		q.next++
		text := fmt.Sprint("message ", q.next)
		m := &sharedMessage{}
		q.messages[text] = m
		q.mu.Unlock()
		// The request is not cancelled with ctx: it would add an unknown outcome.
		_, err := q.any(rnd).EnqueueMessage(context.WithoutCancel(ctx), text,
			&azqueue.EnqueueMessageOptions{TimeToLive: to.Ptr(int32(-1))})
		if q.answered(err, &q.puts) {
			q.mu.Lock()
			m.put = true
			q.mu.Unlock()
		} else {
			pause(ctx, 2*q.think)
		}
		pause(ctx, time.Duration(rnd.Int64N(int64(q.think))))
	}
}

// consume receives messages and deletes most of them, until ctx is done.
func (q *sharedQueue) consume(ctx context.Context, rnd *rand.Rand) {
	for ctx.Err() == nil {
		if q.receive(context.WithoutCancel(ctx), rnd, 0.9) == 0 {
			pause(ctx, 2*q.think)
		}
	}
}

// receive receives messages once, checks them, and deletes a share of them. It returns their number.
func (q *sharedQueue) receive(ctx context.Context, rnd *rand.Rand, share float64) int {
	asked := time.Now()
	r, err := q.any(rnd).DequeueMessages(ctx,
		&azqueue.DequeueMessagesOptions{NumberOfMessages: to.Ptr(int32(8)),
			VisibilityTimeout: to.Ptr(int32(hiddenFor / time.Second))})
	if !q.answered(err, &q.gets) {
		return 0
	}
	for _, got := range r.Messages {
		q.delivered(got, asked, time.Now())
		if rnd.Float64() < share {
			q.remove(ctx, rnd, got)
		}
	}
	return len(r.Messages)
}

// delivered checks a message that was received between two times.
func (q *sharedQueue) delivered(got *azqueue.DequeuedMessage, asked, came time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	text := *got.MessageText
	m := q.messages[text]
	switch {
	case m == nil:
		q.found(Wrong, "%q was never put", text)
		return
	case !m.deleted.IsZero() && asked.After(m.deleted):
		q.found(Resurrected, "%q was deleted at %v and delivered to a request of %v", text, m.deleted, asked)
	case len(m.given) > 0 && m.id != *got.MessageID:
		q.found(Doubled, "%q was delivered as message %s and as message %s", text, m.id, *got.MessageID)
	}
	d := delivery{*got.DequeueCount, *got.TimeNextVisible, came}
	if other, conflict := m.conflicts(d); conflict {
		q.found(Doubled, "%q was delivered as number %d before %v and hidden until %v, and as number %d before %v and "+
			"hidden until %v", text,
			other.count, other.came, other.hidden, d.count, d.came, d.hidden)
	}
	m.id, m.given = *got.MessageID, append(m.given, d)
}

func (q *sharedQueue) remove(ctx context.Context, rnd *rand.Rand, got *azqueue.DequeuedMessage) {
	m := q.known(*got.MessageText)
	if m == nil {
		return
	}
	_, err := q.any(rnd).DeleteMessage(ctx, *got.MessageID, *got.PopReceipt, nil)
	if s := status(err); s == http.StatusNotFound || s == http.StatusBadRequest {
		return // its receipt ended: another client has received it
	}
	acknowledged := q.answered(err, &q.deletes)
	q.mu.Lock()
	defer q.mu.Unlock()
	if acknowledged {
		m.deleted = time.Now()
	} else {
		m.maybe = true
	}
}

func (q *sharedQueue) known(text string) *sharedMessage {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.messages[text]
}

// missing returns the acknowledged messages that were neither deleted nor are known to be there.
func (q *sharedQueue) missing() (texts []string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for text, m := range q.messages {
		if m.put && m.deleted.IsZero() && !m.maybe {
			texts = append(texts, text)
		}
	}
	return texts
}

// drain receives and deletes everything. What is missing then is lost.
func (q *sharedQueue) drain(ctx context.Context) {
	rnd := rand.New(rand.NewPCG(1, 1))
	_ = wait(ctx, drainPatience, func() (bool, error) {
		for q.receive(ctx, rnd, 1) > 0 {
		}
		return len(q.missing()) == 0, nil
	})
	for _, text := range q.missing() {
		q.found(Lost, "%q was acknowledged, and was not there at the end", text)
	}
}

// fill copies the numbers to the report.
func (q *sharedQueue) fill(r *NodesReport) {
	q.mu.Lock()
	defer q.mu.Unlock()
	r.Puts, r.Gets, r.Deletes = q.puts, q.gets, q.deletes
	q.add(r, "message")
}
