package trigger

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/lazuli-storage/lazuli/workers/internal/queues"
)

// priorityListener listens to several queues for one function. Each has a QueueListener, whose listen is not used: they
// receive and handle, and this one says which and when.
type priorityListener struct {
	*QueueListener // of the first queue
	queues         []*priorityQueue
	random         func(n int) int
}

// priorityQueue is one of the queues.
type priorityQueue struct {
	*QueueListener
	empty time.Time // when it was found empty; zero if it was not
}

func newPriorityListener(env *Environment, f *Function, h QueueHandler) (*priorityListener, error) {
	p := &priorityListener{random: rand.IntN}
	for _, name := range f.Settings.Priority.Names {
		l, err := newQueueListenerOf(env, f, h, name)
		if err != nil {
			return nil, err
		}
		if p.QueueListener == nil {
			p.QueueListener = l
		}
		l.flow, l.keys, l.limits = p.flow, p.keys, p.limits // They share the limits of the function.
		p.queues = append(p.queues, &priorityQueue{QueueListener: l})
	}
	return p, nil
}

// Listen implements listener.
func (p *priorityListener) Listen(soft, hard context.Context) error {
	backOff := queues.PollingBackOff{Max: p.Settings.MaxPolling}
	for _, q := range p.queues {
		q.canWait = true
	}
	for p.function.Gate.Pass(soft) {
		n := p.limits.Most(soft, p.Settings.BatchSize, p.function.Batch != nil)
		if n == 0 || p.function.Gate.Paused() {
			continue // It was stopped or paused while it waited.
		}
		found := p.round(soft, hard, n)
		if !found && soft.Err() == nil {
			var waited bool
			if found, waited = p.await(soft, hard, n); !found && !waited {
				p.pause(soft, backOff.Empty(p.QueueListener.random()))
			}
		}
		if found {
			backOff.Found()
			p.waitForRoom(soft)
		}
	}
	return p.drained()
}

// round receives up to n messages from the first queue, by priority, that has messages, without a wait.
func (p *priorityListener) round(soft, hard context.Context, n int) (found bool) {
	for _, i := range p.function.Settings.Priority.order(p.random) {
		q := p.queues[i]
		if soft.Err() != nil {
			return false
		}
		if now := p.clock.Now(); !q.empty.IsZero() && now.Sub(q.empty) < queues.MinPollingInterval {
			continue
		}
		if r := q.ask(soft, hard, soft, n, 0); r.messages > 0 {
			return true
		}
	}
	return false
}

// await waits for a message in any of the queues, if the service supports it and there is room for a message of each:
// one can come from each before the other waits end. waited is false if it did not wait.
func (p *priorityListener) await(soft, hard context.Context, n int) (found, waited bool) {
	room := p.Settings.BatchSize + p.Settings.NewBatchThreshold - int(p.inFlight.Load())
	each := min(room/len(p.queues), n)
	wait := queues.LongWait
	var there []*priorityQueue
	for _, q := range p.queues {
		if !q.canWait || each < 1 {
			return false, false
		}
		if q.absent {
			// A request for it would be answered at once: the next round looks.
			wait = min(wait, max(p.Settings.MaxPolling.Truncate(time.Second), time.Second))
			continue
		}
		there = append(there, q)
	}
	stop, end := context.WithCancel(soft)
	defer end()
	results := make([]polled, len(there))
	var wg sync.WaitGroup
	for i, q := range there {
		wg.Go(func() {
			defer end() // Whatever ends one wait ends all: a message, a wake, a pause of the function.
			results[i] = q.ask(soft, hard, stop, each, wait)
		})
	}
	wg.Wait()
	quick := false // a wait has ended before its time by itself, as at a service that stops
	waited = len(there) > 0
	for _, r := range results {
		found = found || r.messages > 0
		waited = waited && r.err == nil && r.waited
		quick = quick || r.took < queues.MinPollingInterval && !r.interrupted
	}
	if quick && !found && waited {
		p.pause(soft, queues.MinPollingInterval)
	}
	return found, waited
}

// ask polls one queue for up to n messages. It waits for them for the given time, until stop is done.
func (q *priorityQueue) ask(soft, hard, stop context.Context, n int, wait time.Duration) polled {
	r := q.pollFor(soft, hard, stop, n, wait)
	q.note(hard, r.err)
	q.empty = time.Time{}
	if r.messages == 0 {
		q.empty = q.clock.Now()
	}
	return r
}

// Idle reports whether no queue has work.
func (p *priorityListener) Idle(ctx context.Context) (bool, error) {
	for _, q := range p.queues {
		if idle, err := q.QueueListener.Idle(ctx); !idle || err != nil {
			return false, err
		}
	}
	return true, nil
}

// MessageQueue implements Queued.
func (p *priorityListener) MessageQueue() queues.Client { return allQueues{p.Queue, p.queues} }

// allQueues is the queues of a function as one, for its depth.
type allQueues struct {
	queues.Client
	queues []*priorityQueue
}

// Depth returns the number of messages in all queues, and the oldest one.
func (a allQueues) Depth(ctx context.Context) (messages int64, oldest time.Time, err error) {
	for _, q := range a.queues {
		n, first, err := q.Queue.Depth(ctx)
		if errors.Is(err, queues.ErrNoQueue) {
			continue
		}
		if err != nil {
			return 0, time.Time{}, err
		}
		messages += n
		if !first.IsZero() && (oldest.IsZero() || first.Before(oldest)) {
			oldest = first
		}
	}
	return messages, oldest, nil
}
