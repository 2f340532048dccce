package workers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// maxPriorityQueues is the largest number of queues of one function.
const maxPriorityQueues = 16

// StrictPriority makes a function listen to several queues, the most important first: messages of a queue are received
// when those before it were found empty. While there are messages in a queue, those behind it wait, without a limit;
// with [WeightedPriority] each gets its share.
//
// The queues share the function's limits of concurrency. Messages that were received are not overtaken, so a small
// [WithConcurrency] gives way sooner. A queue that was found empty is asked again after 100 ms while others have
// messages. Each queue has its own poison queue. The option replaces [WithQueueName]; there can be 1 to 16 queues.
func StrictPriority(queues ...string) QueueOption {
	return queueOption(func(s *settings) {
		s.priority = &priority{strict: true}
		for _, name := range queues {
			s.priority.add(name, 1)
		}
	})
}

// WeightedPriority makes a function listen to several queues: each time that it can receive messages, a queue is chosen
// at random, with the weight as its share. With {"critical": 6, "default": 3, "low": 1} and messages in all three, six
// of ten batches come from the first. Queues without messages are left out. A weight is from 1 to 1,000.
//
// For the rest it is as [StrictPriority].
func WeightedPriority(weights map[string]int) QueueOption {
	return queueOption(func(s *settings) {
		s.priority = &priority{}
		for _, name := range slices.Sorted(maps.Keys(weights)) {
			s.priority.add(name, weights[name])
		}
	})
}

// priority has the queues of a function that listens to several.
type priority struct {
	strict  bool
	names   []string
	weights []int
}

func (p *priority) add(name string, weight int) {
	p.names, p.weights = append(p.names, name), append(p.weights, weight)
}

func (p *priority) validate() error {
	if p == nil {
		return nil
	}
	if n := len(p.names); n < 1 || n > maxPriorityQueues {
		return fmt.Errorf("%d queues by priority are not within 1 to %d", n, maxPriorityQueues)
	}
	for i, name := range p.names {
		switch {
		case slices.Contains(p.names[:i], name):
			return fmt.Errorf("queue %q has two priorities", name)
		case p.weights[i] < 1 || p.weights[i] > 1000:
			return fmt.Errorf("the weight %d of queue %q is not within 1 to 1000", p.weights[i], name)
		}
		if err := validateQueueName(name); err != nil {
			return err
		}
	}
	return nil
}

// order returns the indices of the queues in the order in which they are to be asked.
func (p *priority) order(random func(n int) int) []int {
	left := make([]int, len(p.names))
	for i := range left {
		left[i] = i
	}
	if p.strict {
		return left
	}
	var order []int
	for len(left) > 0 {
		total := 0
		for _, i := range left {
			total += p.weights[i]
		}
		n := random(total)
		chosen := 0
		for ; n >= p.weights[left[chosen]]; chosen++ {
			n -= p.weights[left[chosen]]
		}
		order = append(order, left[chosen])
		left = slices.Delete(left, chosen, chosen+1)
	}
	return order
}

// priorityListener listens to several queues for one function. Each has a queueListener, whose listen is not used: they
// receive and handle, and this one says which and when.
type priorityListener struct {
	*queueListener // of the first queue
	queues         []*priorityQueue
	random         func(n int) int
}

// priorityQueue is one of the queues.
type priorityQueue struct {
	*queueListener
	empty time.Time // when it was found empty; zero if it was not
}

func newPriorityListener(a *App, f *Function, storage *Storage, h QueueHandler) (*priorityListener, error) {
	p := &priorityListener{random: rand.IntN}
	for _, name := range f.settings.priority.names {
		l, err := newQueueListenerOf(a, f, storage, h, name)
		if err != nil {
			return nil, err
		}
		if p.queueListener == nil {
			p.queueListener = l
		}
		l.flow, l.keys, l.limits = p.flow, p.keys, p.limits // They share the limits of the function.
		p.queues = append(p.queues, &priorityQueue{queueListener: l})
	}
	return p, nil
}

// listen implements listener.
func (p *priorityListener) listen(soft, hard context.Context) error {
	backOff := pollingBackOff{max: p.settings.maxPolling}
	for _, q := range p.queues {
		q.canWait = true
	}
	for p.function.gate.pass(soft) {
		n := p.limits.most(soft, p.settings.batchSize, p.function.batch != nil)
		if n == 0 || p.function.gate.paused() {
			continue // It was stopped or paused while it waited.
		}
		found := p.round(soft, hard, n)
		if !found && soft.Err() == nil {
			var waited bool
			if found, waited = p.await(soft, hard, n); !found && !waited {
				p.pause(soft, backOff.empty(p.queueListener.random()))
			}
		}
		if found {
			backOff.found()
			p.waitForRoom(soft)
		}
	}
	return p.finished()
}

// round receives up to n messages from the first queue, by priority, that has messages, without a wait.
func (p *priorityListener) round(soft, hard context.Context, n int) (found bool) {
	for _, i := range p.function.settings.priority.order(p.random) {
		q := p.queues[i]
		if soft.Err() != nil {
			return false
		}
		if now := p.clock.Now(); !q.empty.IsZero() && now.Sub(q.empty) < minPollingInterval {
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
	room := p.settings.batchSize + p.settings.newBatchThreshold - int(p.inFlight.Load())
	each := min(room/len(p.queues), n)
	wait := longWait
	var there []*priorityQueue
	for _, q := range p.queues {
		if !q.canWait || each < 1 {
			return false, false
		}
		if q.absent {
			// A request for it would be answered at once: the next round looks.
			wait = min(wait, max(p.settings.maxPolling.Truncate(time.Second), time.Second))
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
		quick = quick || r.took < minPollingInterval && !r.interrupted
	}
	if quick && !found && waited {
		p.pause(soft, minPollingInterval)
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

func (p *priorityListener) idle(ctx context.Context) (bool, error) {
	for _, q := range p.queues {
		if idle, err := q.queueListener.idle(ctx); !idle || err != nil {
			return false, err
		}
	}
	return true, nil
}

func (p *priorityListener) messageQueue() queueClient { return allQueues{p.queue, p.queues} }

// allQueues is the queues of a function as one, for its depth.
type allQueues struct {
	queueClient
	queues []*priorityQueue
}

// depth returns the number of messages in all queues, and the oldest one.
func (a allQueues) depth(ctx context.Context) (messages int64, oldest time.Time, err error) {
	for _, q := range a.queues {
		n, first, err := q.queue.depth(ctx)
		if errors.Is(err, errNoQueue) {
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
