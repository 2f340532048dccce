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

// queueListener runs a queue trigger: one goroutine polls, and one goroutine handles each message.
type queueListener struct {
	function *Function
	settings settings
	handler  QueueHandler
	wrapped  Handler // the middleware; see delivery.invoke
	policy   messagePolicy
	clock    Clock
	log      *slog.Logger
	stuck    time.Duration

	bound         bound
	queue, poison queueClient // poison is nil if the queue has no poison queue
	poisonName    string
	records       func(context.Context, poison.Record) error // nil if the account has no tables
	reasons       *reasons                                   // of the messages, if the queue is a poison queue; else nil
	hostID        string
	random        func() float64

	keys         *keyLimit // nil if messages are not limited by key
	inFlight     atomic.Int64
	busy         atomic.Int64  // 1 from before a poll until the received messages are in flight
	canWait      bool          // the service supports long polling, as far as known; used by listen only
	emptyWakeups int           // consecutive waits after which no message was received; used by listen only
	received     uint64        // messages so far; used by listen only
	absent       bool          // the last poll found no queue; used by listen only
	freed        chan struct{} // has a token if a message was finished since the last receive
	woken        chan struct{} // has a token if wake was called
	working      sync.WaitGroup

	mu        sync.Mutex // guards abandoned
	abandoned int        // stuck handlers
}

// openAzureQueue is the default of App.openQueue, which tests replace.
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
			hasPoison: !strings.HasSuffix(s.queueName, poison.Suffix) &&
				validateQueueName(s.queueName+poison.Suffix) == nil,
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
		if strings.HasSuffix(s.queueName, poison.Suffix) {
			l.reasons = &reasons{tables, s.queueName}
		}
	}
	if l.policy.hasPoison {
		l.poisonName = s.queueName + poison.Suffix
		l.poison, err = a.openQueue(storage, s.queueName+poison.Suffix)
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

// listen polls until soft is done. It lets the last poll finish: if that were cancelled, messages could be leased at
// the service although no instance handles them.
func (l *queueListener) listen(soft, hard context.Context) error {
	backOff := pollingBackOff{max: l.settings.maxPolling}
	var failing string // the error of the last poll, to log a repeated error once
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
			l.log.Error("poll failed; retrying", "err", sdkerr.Short(err))
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

// poll receives a batch. It treats a queue that does not exist as empty.
func (l *queueListener) poll(ctx context.Context) ([]*delivery, error) {
	// The service starts the lease between the request and its response; the earlier time is safe.
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
			// Not in the goroutine: messages with the same key keep their order.
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

// waitForRoom returns when the number of in-flight messages allows another batch, or soft is done.
func (l *queueListener) waitForRoom(soft context.Context) {
	for l.inFlight.Load() > int64(l.settings.newBatchThreshold) {
		select {
		case <-l.freed:
		case <-soft.Done():
			return
		}
	}
}

// longWait is the duration of a long poll.
const longWait = 30 * time.Second

// waitForNextPoll waits until the next poll: by a long poll if the service supports it, otherwise by the back-off.
func (l *queueListener) waitForNextPoll(soft context.Context, b *pollingBackOff, works bool) {
	interval := b.empty(l.random())
	// If other instances receive the messages first, or a message is visible but cannot be received, long polls return at
	// once: pause instead.
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
			// Errors, including a missing queue, are transient. A service without long polling stays without.
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
