package workers

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lazuli-storage/lazuli/workers/internal/queues"
)

var errBoom = errors.New("boom")

// fakeAccount is a queue service in memory, on the time package's clock, which in a synctest bubble is virtual. It
// keeps the rules that the runtime depends on: visibility, dequeue counts, one current receipt per message. Unlike the
// service it keeps strict order, and it has no limits on sizes or times.
type fakeAccount struct {
	mu     sync.Mutex
	queues map[string]*fakeQueue
}

type fakeQueue struct {
	account  *fakeAccount
	name     string
	exists   bool
	messages []*fakeMessage
	serial   int
	creates  int
	canWait  bool          // requests may wait
	hidden   bool          // messages are shown, and not received
	changed  chan struct{} // closed at every put

	// Hooks run before the request takes effect; an error is returned in its place.
	onReceive func(context.Context) error
	onUpdate  func(visibleIn time.Duration) error
	onDelete  func() error
}

type fakeMessage struct {
	queues.Message
	visible time.Time
}

func newFakeAccount() *fakeAccount { return &fakeAccount{queues: map[string]*fakeQueue{}} }

// queue returns a handle; the queue need not exist.
func (a *fakeAccount) queue(name string) *fakeQueue {
	a.mu.Lock()
	defer a.mu.Unlock()
	q := a.queues[name]
	if q == nil {
		q = &fakeQueue{account: a, name: name, changed: make(chan struct{})}
		a.queues[name] = q
	}
	return q
}

func (a *fakeAccount) open(_ *Storage, name string) (queues.Client, error) { return a.queue(name), nil }

func (q *fakeQueue) Create(context.Context) error {
	q.account.mu.Lock()
	defer q.account.mu.Unlock()
	q.exists = true
	q.creates++
	return nil
}

func (q *fakeQueue) remove() {
	q.account.mu.Lock()
	defer q.account.mu.Unlock()
	q.exists, q.messages = false, nil
}

func (q *fakeQueue) Put(_ context.Context, text string, visibleIn, ttl time.Duration) (string, error) {
	q.account.mu.Lock()
	defer q.account.mu.Unlock()
	if !q.exists {
		return "", queues.ErrNoQueue
	}
	defer q.touch()
	q.serial++
	now := time.Now()
	expires := now.Add(ttl)
	if ttl < 0 {
		expires = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)
	}
	q.messages = append(q.messages, &fakeMessage{
		Message: queues.Message{ID: fmt.Sprintf("%s-%d", q.name, q.serial), Text: text, Inserted: now,
			Expires: expires},
		visible: now.Add(visibleIn),
	})
	return fmt.Sprintf("%s-%d", q.name, q.serial), nil
}

func (q *fakeQueue) setHidden(hidden bool) {
	q.account.mu.Lock()
	defer q.account.mu.Unlock()
	q.hidden = hidden
}

func (q *fakeQueue) touch() {
	close(q.changed)
	q.changed = make(chan struct{})
}

func (q *fakeQueue) Depth(context.Context) (int64, time.Time, error) {
	q.account.mu.Lock()
	defer q.account.mu.Unlock()
	if !q.exists {
		return 0, time.Time{}, queues.ErrNoQueue
	}
	var oldest time.Time
	for _, m := range q.messages {
		if !m.visible.After(time.Now()) && (oldest.IsZero() || m.Inserted.Before(oldest)) {
			oldest = m.Inserted
		}
	}
	return int64(len(q.messages)), oldest, nil
}

// send puts a body in base64, creating the queue.
func (q *fakeQueue) send(bodies ...string) {
	_ = q.Create(context.Background())
	for _, b := range bodies {
		_, _ = q.Put(context.Background(), base64.StdEncoding.EncodeToString([]byte(b)), 0, 7*24*time.Hour)
	}
}

// Receive waits if the test has set canWait.
func (q *fakeQueue) Receive(ctx context.Context, n int, lease, wait time.Duration,
	stop <-chan struct{}) ([]queues.Message, bool, error) {
	if q.onReceive != nil {
		if err := q.onReceive(ctx); err != nil {
			return nil, false, err
		}
	}
	limit := time.After(wait)
	for {
		got, changed, next, err := q.take(ctx, n, lease)
		waits := q.canWait && wait > 0
		if !waits || err != nil || len(got) > 0 || q.hidden {
			return got, waits, err
		}
		select {
		case <-changed:
		case <-time.After(next):
		case <-limit:
			return nil, true, nil
		case <-stop:
			return nil, true, nil
		}
	}
}

// take receives visible messages. changed is closed at the next put; next is when another message becomes visible.
func (q *fakeQueue) take(ctx context.Context, n int, lease time.Duration) (got []queues.Message,
	changed <-chan struct{}, next time.Duration, err error) {
	q.account.mu.Lock()
	defer q.account.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, nil, 0, err
	}
	if !q.exists {
		return nil, nil, 0, queues.ErrNoQueue
	}
	now, next := time.Now(), time.Hour
	for _, m := range q.messages {
		switch {
		case m.visible.After(now):
			next = min(next, m.visible.Sub(now))
		case len(got) < n && !q.hidden:
			m.DequeueCount++
			q.renew(m, now.Add(lease))
			got = append(got, m.Message)
		}
	}
	return got, q.changed, next, nil
}

func (q *fakeQueue) renew(m *fakeMessage, visible time.Time) {
	q.serial++
	m.Receipt = fmt.Sprintf("receipt-%d", q.serial)
	m.visible, m.NextVisible = visible, visible
}

func (q *fakeQueue) Update(ctx context.Context, m queues.Message, visibleIn time.Duration) (string, error) {
	if q.onUpdate != nil {
		if err := q.onUpdate(visibleIn); err != nil {
			return "", err
		}
	}
	q.account.mu.Lock()
	defer q.account.mu.Unlock()
	held, err := q.held(m)
	if err != nil {
		return "", err
	}
	q.renew(held, time.Now().Add(visibleIn))
	return held.Receipt, nil
}

func (q *fakeQueue) Delete(ctx context.Context, m queues.Message) error {
	if q.onDelete != nil {
		if err := q.onDelete(); err != nil {
			return err
		}
	}
	q.account.mu.Lock()
	defer q.account.mu.Unlock()
	held, err := q.held(m)
	if err != nil {
		return err
	}
	q.messages = slices.DeleteFunc(q.messages, func(m *fakeMessage) bool { return m == held })
	return nil
}

func (q *fakeQueue) held(m queues.Message) (*fakeMessage, error) {
	if !q.exists {
		return nil, queues.ErrNoQueue
	}
	for _, have := range q.messages {
		if have.ID == m.ID && have.Receipt == m.Receipt {
			return have, nil
		}
	}
	return nil, queues.ErrNotHeld
}

// steal gives every message a new receipt, as if another instance had received it, hidden for d.
func (q *fakeQueue) steal(d time.Duration) {
	q.account.mu.Lock()
	defer q.account.mu.Unlock()
	for _, m := range q.messages {
		q.renew(m, time.Now().Add(d))
	}
}

// texts returns the decoded bodies of all messages, also invisible ones, in order.
func (q *fakeQueue) texts() []string {
	q.account.mu.Lock()
	defer q.account.mu.Unlock()
	all := []string{}
	for _, m := range q.messages {
		b, err := base64.StdEncoding.DecodeString(m.Text)
		if err != nil {
			b = []byte(m.Text)
		}
		all = append(all, string(b))
	}
	return all
}

// visibleIn returns when each message becomes visible, from now.
func (q *fakeQueue) visibleIn() []time.Duration {
	q.account.mu.Lock()
	defer q.account.mu.Unlock()
	all := []time.Duration{}
	for _, m := range q.messages {
		all = append(all, max(time.Until(m.visible), 0))
	}
	return all
}
