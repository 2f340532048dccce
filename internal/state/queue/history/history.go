// Package history runs producers and consumers on queues while faults occur, records their observations, and classifies
// every message as Jepsen does for queues: ok, lost, duplicated, unknown. It is for tests.
package history

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Queue is a client's interface to a queue. Bodies are unique. An error other than [ErrDead] means that the outcome is
// unknown.
type Queue interface {
	Put(ctx context.Context, body string) error
	// Get claims up to n messages for [Visibility].
	Get(ctx context.Context, n int) ([]Held, error)
	Delete(ctx context.Context, h Held) error
}

// Visibility is the visibility timeout of claimed messages.
const Visibility = 2 * time.Second

// backlog is the maximum number of messages by which producers may be ahead of consumers: more would take long to
// drain.
const backlog = 500

// ErrDead is returned by Delete if the pop receipt is no longer valid, or the message does not exist.
var ErrDead = errors.New("message does not exist or receipt is not valid")

// Held is a message that was returned to a consumer.
type Held struct {
	Body string
	// Asked is the earliest time at which the message can have been handed out, Handed the latest, and Until the earliest
	// time at which its visibility timeout can end, on one clock.
	Asked, Handed, Until time.Time
	// Token is the argument of Delete.
	Token any
}

// History records the observations. Its methods may be called concurrently.
type History struct {
	mu       sync.Mutex
	messages map[string]*message
	doubles  []string
	ghosts   []string

	requests, failures, stored, deleted atomic.Int64
}

type message struct {
	put, deleted, uncertain bool
	handed                  int
	spans                   []span
	gone                    time.Time // when its deletion was acknowledged
}

// span is a time for which a message was handed out: from the start of the request until the message may become visible
// again. An answer may come late, so spans are not recorded in order.
type span struct{ from, until time.Time }

// New returns an empty history.
func New() *History { return &History{messages: make(map[string]*message)} }

// Requests returns the number of requests.
func (h *History) Requests() int64 { return h.requests.Load() }

// Failures returns the number of requests whose outcome is unknown.
func (h *History) Failures() int64 { return h.failures.Load() }

func (h *History) message(body string) *message {
	m := h.messages[body]
	if m == nil {
		m = &message{}
		h.messages[body] = m
	}
	return m
}

// Work starts producers and consumers, distributed over the queues. It returns after stop is closed, or ctx ends, and
// all of them have ended.
func (h *History) Work(ctx context.Context, queues []Queue, producers, consumers int, stop <-chan struct{}) {
	var wg sync.WaitGroup
	stopped := func() bool {
		select {
		case <-stop:
			return true
		case <-ctx.Done():
			return true
		default:
			return false
		}
	}
	for p := range producers {
		wg.Go(func() {
			for i := 0; !stopped(); i++ {
				if h.stored.Load()-h.deleted.Load() > backlog {
					time.Sleep(time.Millisecond)
					continue
				}
				h.put(ctx, queues[(p+i)%len(queues)], fmt.Sprintf("%d-%d", p, i))
			}
		})
	}
	for c := range consumers {
		wg.Go(func() {
			for i := 0; !stopped(); i++ {
				if h.consume(ctx, queues[(c+i)%len(queues)], 1+rand.IntN(4), 0.1) <= 0 {
					time.Sleep(time.Millisecond) // yield to the producers
				}
			}
		})
	}
	wg.Wait()
}

func (h *History) put(ctx context.Context, q Queue, body string) {
	err := q.Put(ctx, body)
	h.requests.Add(1)
	h.mu.Lock()
	defer h.mu.Unlock()
	m := h.message(body)
	if err == nil {
		m.put = true
		h.stored.Add(1)
	} else {
		h.failures.Add(1)
	}
}

// consume gets messages and deletes them, except for a share that it forgets, as a crashed consumer does. It returns
// the number of messages, or -1 if Get failed.
func (h *History) consume(ctx context.Context, q Queue, n int, forget float64) int {
	list, err := q.Get(ctx, n)
	h.requests.Add(1)
	if err != nil {
		h.failures.Add(1)
		return -1
	}
	for _, held := range list {
		h.handedOut(held)
		if rand.Float64() < forget {
			continue
		}
		err := q.Delete(ctx, held)
		now := time.Now()
		h.requests.Add(1)
		h.mu.Lock()
		m := h.message(held.Body)
		switch {
		case err == nil:
			m.deleted, m.gone = true, now
			h.deleted.Add(1)
		case errors.Is(err, ErrDead):
			if !m.uncertain && now.Before(held.Until) {
				h.doubles = append(h.doubles, held.Body+" (its receipt died within its time)")
			}
		default:
			h.failures.Add(1)
			m.uncertain = true
		}
		h.mu.Unlock()
	}
	return len(list)
}

func (h *History) handedOut(held Held) {
	h.mu.Lock()
	defer h.mu.Unlock()
	m := h.message(held.Body)
	m.handed++
	if m.deleted && held.Asked.After(m.gone) {
		h.ghosts = append(h.ghosts, held.Body)
	}
	if !held.Handed.Before(held.Until) { // the answer came too late to prove that the message was hidden at any time
		return
	}
	for _, other := range m.spans {
		if held.Handed.Before(other.until) && other.from.Before(held.Until) {
			h.doubles = append(h.doubles, held.Body)
		}
	}
	m.spans = append(m.spans, span{held.Handed, held.Until})
}

// Drain consumes from all queues until no message has arrived for longer than the visibility timeout.
func (h *History) Drain(ctx context.Context, queues []Queue) error {
	empty := time.Time{}
	for {
		for _, q := range queues {
			if h.consume(ctx, q, 32, 0) != 0 {
				empty = time.Time{}
			}
		}
		if empty.IsZero() {
			empty = time.Now()
		}
		if time.Since(empty) > Visibility+time.Second {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.New("messages keep coming, or requests keep failing")
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// Check classifies every message and fails the test if one was lost, handed out twice within its visibility timeout, or
// handed out after it was deleted.
func (h *History) Check(t testing.TB) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	var ok, lost, unknown int
	for body, m := range h.messages {
		switch {
		case m.deleted:
			ok++
		case !m.put || m.uncertain:
			unknown++
		default:
			lost++
			t.Errorf("lost: %s was put and never deleted; it was handed out %d times", body, m.handed)
		}
	}
	for _, body := range h.doubles {
		t.Errorf("handed out twice within its visibility timeout: %s", body)
	}
	for _, body := range h.ghosts {
		t.Errorf("handed out after it was deleted: %s", body)
	}
	t.Logf("%d requests, %d without an outcome; messages: ok %d, lost %d, duplicated within visibility %d, ghosts %d, "+
		"unknown %d",
		h.Requests(), h.Failures(), ok, lost, len(h.doubles), len(h.ghosts), unknown)
	if ok == 0 {
		t.Error("no requests were made")
	}
}
