package workers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lazuli-storage/lazuli/internal/sdk/poison"
	"github.com/lazuli-storage/lazuli/internal/sdk/sdkerr"
)

// poisonSuffix makes a queue's name into its poison queue's.
const poisonSuffix = "-poison"

// queueListener is a queue trigger at work: one goroutine polls, each message has one of its own.
type queueListener struct {
	function *Function
	settings settings
	handler  QueueHandler
	wrapped  Handler // the middleware around the handler; see invoke
	policy   messagePolicy
	clock    Clock
	log      *slog.Logger
	stuck    time.Duration

	bound         bound
	queue, poison queueClient // poison is nil if the queue has none
	poisonName    string
	records       func(context.Context, poison.Record) error // nil if the account has no tables
	hostID        string
	random        func() float64

	keys         *keyLimit // nil if messages are not limited by key
	inFlight     atomic.Int64
	busy         atomic.Int64  // 1 from before a poll until what it brought is in flight
	canWait      bool          // the service lets requests wait, as far as is known; it belongs to listen
	emptyWakeups int           // how often in a row there was nothing to receive after a wait; it belongs to listen
	received     uint64        // messages so far; it belongs to listen
	absent       bool          // the last poll found no queue; it belongs to listen
	freed        chan struct{} // has a token when a message was finished since it was last drained
	woken        chan struct{} // has a token when wake was called
	working      sync.WaitGroup

	mu        sync.Mutex // guards abandoned
	abandoned int        // handlers given up as stuck
}

// openAzureQueue is the App's way to a queue, unless a test puts another in its place.
func openAzureQueue(s *Storage, name string) (queueClient, error) {
	if s.Queues == nil {
		return nil, errors.New("the connection string has no queue endpoint")
	}
	return azureQueue{s.Queues.NewQueueClient(name)}, nil
}

func newQueueListener(a *App, f *Function, storage *Storage, h QueueHandler) (*queueListener, error) {
	s := f.settings
	if s.newBatchThreshold < 0 {
		s.newBatchThreshold = s.batchSize / 2 * runtime.GOMAXPROCS(0)
	}
	if s.maxPolling == 0 {
		s.maxPolling = time.Minute
		if storage.Local {
			s.maxPolling = 2 * time.Second
		}
	}
	l := &queueListener{
		function: f,
		settings: s,
		handler:  h,
		policy: messagePolicy{
			maxDequeueCount: s.maxDequeueCount,
			retry:           s.retry,
			hasPoison:       !strings.HasSuffix(s.queueName, poisonSuffix) && validateQueueName(s.queueName+poisonSuffix) == nil,
		},
		clock:  a.config.Clock,
		log:    a.config.Logger.With("function", f.name, "queue", s.queueName),
		stuck:  a.config.StuckTimeout,
		hostID: a.config.HostID,
		bound:  bound{a, storage},
		random: rand.Float64,
		freed:  make(chan struct{}, 1),
		woken:  make(chan struct{}, 1),
	}
	if s.key != nil {
		l.keys = newKeyLimit(s.perKey)
	}
	l.wrapped = a.compose()
	var err error
	if l.queue, err = a.openQueue(storage, s.queueName); err != nil {
		return nil, err
	}
	if tables := storage.Tables; tables != nil {
		l.records = func(ctx context.Context, r poison.Record) error { return poison.Write(ctx, tables, r) }
	}
	if l.policy.hasPoison {
		l.poisonName = s.queueName + poisonSuffix
		l.poison, err = a.openQueue(storage, s.queueName+poisonSuffix)
	}
	return l, err
}

func (l *queueListener) messageQueue() queueClient { return l.queue }

func (l *queueListener) wake() {
	select {
	case l.woken <- struct{}{}:
	default:
	}
}

// listen polls until soft is done. The poll that is under way then is left to finish: were it cancelled, the service might
// hide messages that nobody here knows of until their leases end.
func (l *queueListener) listen(soft, hard context.Context) error {
	backOff := pollingBackOff{max: l.settings.maxPolling}
	var failing string // the last poll's error, so that a lasting one is logged once
	l.canWait, l.emptyWakeups = true, 0
	for l.function.gate.pass(soft) {
		l.busy.Store(1)
		messages, err := l.poll(hard)
		switch {
		case err == nil:
			if failing != "" {
				l.log.Info("polling works again")
			}
			failing = ""
		case hard.Err() != nil:
		case sdkerr.Text(err) != failing:
			failing = sdkerr.Text(err)
			l.function.stats.fail(l.clock.Now(), err)
			l.log.Error("cannot poll; trying on", "err", sdkerr.Short(err))
		}
		if len(messages) == 0 {
			l.busy.Store(0)
			l.waitForNextPoll(soft, &backOff, err == nil)
			continue
		}
		backOff.found()
		l.emptyWakeups = 0
		l.begin(soft, hard, messages)
		l.busy.Store(0)
		l.waitForRoom(soft)
	}
	l.working.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.abandoned > 0 {
		return fmt.Errorf("function %q: %d of its calls: %w", l.function.name, l.abandoned, ErrStuck)
	}
	return nil
}

// poll receives a batch. A queue that does not exist is as good as an empty one.
func (l *queueListener) poll(ctx context.Context) ([]*delivery, error) {
	// The lease is counted from before the request: the service starts to count somewhere in between.
	asked := l.clock.Now()
	got, err := l.queue.receive(ctx, l.settings.batchSize, l.settings.lease)
	if errors.Is(err, errNoQueue) {
		if !l.absent && l.function.trigger == queueTrigger { // Other triggers create their queues with the first message.
			l.log.Warn("the queue does not exist; waiting for it")
		}
		l.absent = true
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	l.absent = false
	messages := make([]*delivery, 0, len(got))
	for _, m := range got {
		d := newDelivery(l, m, asked.Add(l.settings.lease))
		l.received++
		d.order = l.received
		messages = append(messages, d)
	}
	return messages, nil
}

func (l *queueListener) begin(soft, hard context.Context, messages []*delivery) {
	for _, d := range messages {
		if l.keys != nil {
			// Here, not in the goroutine: turns come in the order of the messages.
			if d.key = l.settings.key(d.body); d.key != "" {
				d.turn = l.keys.join(d.key)
			}
		}
		l.inFlight.Add(1)
		l.function.stats.inFlight.Add(1)
		l.working.Go(func() {
			defer l.end()
			d.run(soft, hard)
		})
	}
}

func (l *queueListener) end() {
	l.function.stats.inFlight.Add(-1)
	l.inFlight.Add(-1)
	select {
	case l.freed <- struct{}{}:
	default:
	}
}

// waitForRoom returns when so few messages are in work that a new batch may be fetched, or soft is done.
func (l *queueListener) waitForRoom(soft context.Context) {
	for l.inFlight.Load() > int64(l.settings.newBatchThreshold) {
		select {
		case <-l.freed:
		case <-soft.Done():
			return
		}
	}
}

// longWait is how long a request waits at the service for a message.
const longWait = 30 * time.Second

// waitForNextPoll waits until it is time to poll again: at the service, if that lets requests wait, and else by the back-off.
func (l *queueListener) waitForNextPoll(soft context.Context, b *pollingBackOff, works bool) {
	interval := b.empty(l.random())
	// Where others receive what woke us, or what we are shown cannot be received, waiting must not become a busy loop.
	if !works || !l.canWait || l.emptyWakeups > 1 {
		if l.emptyWakeups > 1 {
			interval, l.emptyWakeups = minPollingInterval, 0
		}
		l.pause(soft, interval)
		return
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(soft))
	defer cancel()
	began := l.clock.Now()
	type result struct {
		can bool
		err error
	}
	done := make(chan result, 1)
	go func() {
		can, err := l.queue.wait(ctx, longWait)
		done <- result{can, err}
	}()
	select {
	case r := <-done:
		if l.emptyWakeups++; l.clock.Now().Sub(began) > minPollingInterval {
			l.emptyWakeups = 0
		}
		if r.err != nil || !r.can {
			// An error, or a queue that is not there, may pass; a service that lets nobody wait will not begin to.
			l.canWait = r.err != nil
			l.emptyWakeups = 0
			l.pause(soft, interval)
		}
		return
	case <-l.woken:
	case <-l.function.gate.changed():
	case <-soft.Done():
	}
	cancel()
	<-done
}

func (l *queueListener) pause(soft context.Context, d time.Duration) {
	timer := l.clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
	case <-l.woken:
	case <-soft.Done():
	}
}
