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
	queue, poison queueClient // azureQueue of queue_client.go; poison is nil if the queue has no poison queue
	poisonName    string
	records       func(context.Context, poison.Record) error // nil if the account has no tables
	reasons       *reasons                                   // of the messages, if the queue is a poison queue; else nil
	hostID        string
	random        func() float64

	keys    *keyLimit   // nil if messages are not limited by key
	limits  *rateLimits // nil without a limit of rate
	jobs    jobWatch
	canWait bool   // the service supports long polling, as far as known; used by listen only
	absent  bool   // the last poll found no queue; used by listen only
	failing string // the error of the last poll, to log a repeated error once; used by listen only
	*flow
}

// flow is what the messages of a function have in common, from whichever of its queues they come.
type flow struct {
	inFlight atomic.Int64
	received atomic.Uint64 // messages so far
	freed    chan struct{} // has a token if a message was finished since the last receive
	woken    chan struct{} // has a token if wake was called
	working  sync.WaitGroup

	mu        sync.Mutex // guards abandoned
	abandoned int        // stuck handlers
}

func newFlow() *flow {
	return &flow{freed: make(chan struct{}, 1), woken: make(chan struct{}, 1)}
}

// openAzureQueue is the default of App.openQueue, which tests replace.
func openAzureQueue(s *Storage, name string) (queueClient, error) {
	if s.Queues == nil {
		return nil, errors.New("the connection string has no queue endpoint")
	}
	return newAzureQueue(s.Queues.NewQueueClient(name)), nil
}

func newQueueListener(a *App, f *Function, storage *Storage, h QueueHandler) (*queueListener, error) {
	return newQueueListenerOf(a, f, storage, h, f.settings.queueName)
}

// newQueueListenerOf makes a listener of one of the function's queues.
func newQueueListenerOf(a *App, f *Function, storage *Storage, h QueueHandler, queue string) (*queueListener, error) {
	s := f.settings
	s.queueName = queue
	if s.newBatchThreshold < 0 {
		// This is the default of Azure Functions: half a batch for each processor.
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
		flow:   newFlow(),
	}
	if s.key != nil {
		l.keys = newKeyLimit(s.perKey)
	}
	l.jobs.l = l
	l.wrapped = a.compose()
	var err error
	if l.limits, err = newRateLimits(a, f, storage, l.log); err != nil {
		return nil, err
	}
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

func (f *flow) wake() {
	select {
	case f.woken <- struct{}{}:
	default:
	}
}

// listen polls until soft is done. It lets the last poll finish: if that were cancelled, messages could be leased at
// the service although no instance handles them.
func (l *queueListener) listen(soft, hard context.Context) error {
	backOff := pollingBackOff{max: l.settings.maxPolling}
	l.canWait = true
	for l.function.gate.pass(soft) {
		n := l.limits.most(soft, l.settings.batchSize, l.function.batch != nil)
		if n == 0 || l.function.gate.paused() {
			continue // It was stopped or paused while it waited.
		}
		r := l.poll(soft, hard, n)
		l.note(hard, r.err)
		switch {
		case r.messages > 0:
			backOff.found()
			// There may be more messages: the next poll follows without a pause.
			l.waitForRoom(soft)
		case !r.waited:
			l.pause(soft, backOff.empty(l.random()))
		case r.took < minPollingInterval && !r.interrupted: // as a service ends waits while it stops
			l.pause(soft, minPollingInterval)
		}
	}
	return l.finished()
}

// note logs the outcome of a poll if it is another one than that of the last.
func (l *queueListener) note(hard context.Context, err error) {
	switch {
	case err == nil:
		if l.failing != "" {
			l.log.Info("polling works again")
		}
		l.failing = ""
	case hard.Err() != nil:
	case sdkerr.Text(err) != l.failing:
		l.failing = sdkerr.Text(err)
		l.function.stats.fail(l.clock.Now(), err)
		l.log.Error("poll failed; retrying", "err", sdkerr.Short(err))
	}
}

// finished waits for the handlers, as a stop does, and returns an error if some did not return.
func (l *queueListener) finished() error {
	l.working.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.abandoned > 0 {
		return fmt.Errorf("function %q: %d of its calls: %w", l.function.name, l.abandoned, ErrStuck)
	}
	return nil
}

// polled is the outcome of a poll.
type polled struct {
	messages    int
	waited      bool // the service has waited for messages
	interrupted bool // the wait was ended before its time
	took        time.Duration
	err         error
}

// longWait is the duration of a long poll.
const longWait = 30 * time.Second

// poll receives up to n messages and begins with them. It treats a queue that does not exist as empty. If the service
// supports it, it waits for messages.
func (l *queueListener) poll(soft, hard context.Context, n int) polled {
	most := longWait
	if !l.canWait {
		most = 0
	}
	return l.pollFor(soft, hard, soft, n, most)
}

// pollFor is poll for up to n messages. It waits for them for at most the given time, until until is done.
func (l *queueListener) pollFor(soft, hard, until context.Context, n int, most time.Duration) (r polled) {
	wait, excluded, end := l.function.gate.polls.Begin(most)
	defer end()
	stop, interrupt := context.WithCancel(until)
	defer interrupt()
	if wait > 0 {
		go l.watch(stop, excluded, interrupt)
	}
	asked := l.clock.Now()
	// soft ends the wait through stop, at which the service answers. Cancelling the request could lose messages that it
	// has leased.
	got, waited, err := l.queue.receive(hard, n, l.settings.lease, wait, stop.Done())
	r.took, r.interrupted = l.clock.Now().Sub(asked), stop.Err() != nil || wait == 0 && l.canWait
	// The service starts the lease between the request and its response; the earlier time is safe. After a wait, it has
	// started the lease just before the response.
	leaseEnd := asked.Add(max(0, r.took-min(time.Second, l.settings.lease/4)) + l.settings.lease)
	if errors.Is(err, errNoQueue) {
		r.err = l.createQueue(hard)
		return r
	}
	if r.err = err; err != nil {
		return r
	}
	if wait > 0 {
		l.canWait = waited // A service without long polling stays without.
	}
	r.waited = l.canWait
	l.absent = false
	messages := make([]*delivery, 0, len(got))
	for _, m := range got {
		d := newDelivery(l, m, leaseEnd)
		d.order = l.received.Add(1)
		messages = append(messages, d)
	}
	r.messages = len(messages)
	l.begin(soft, hard, messages)
	return r
}

// createQueue creates the queue of a queue trigger, unless the function leaves that to others. Other triggers create
// their queues with the first message.
func (l *queueListener) createQueue(ctx context.Context) error {
	if l.function.trigger != queueTrigger {
		return nil
	}
	if l.settings.wait {
		if !l.absent {
			l.log.Warn("the queue does not exist; waiting for it")
		}
		l.absent = true
		return nil
	}
	if err := l.queue.create(ctx); err != nil {
		return fmt.Errorf("create the queue: %w", err)
	}
	l.log.Info("created the queue")
	return nil
}

// watch interrupts a poll that waits when something else is to be done.
func (l *queueListener) watch(stop context.Context, excluded <-chan struct{}, interrupt func()) {
	select {
	case <-excluded:
	case <-l.woken:
	case <-l.function.gate.changed():
	case <-stop.Done():
	}
	interrupt()
}

func (l *queueListener) begin(soft, hard context.Context, messages []*delivery) {
	var batch *batchCall
	if l.function.batch != nil && len(messages) > 0 {
		batch = newBatchCall(l, soft, len(messages))
	}
	for _, d := range messages {
		d.batch = batch
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
			d.run(soft, hard) // delivery.go: it ends when the message is settled at the service.
		})
	}
}

func (l *queueListener) end() {
	l.function.stats.inFlight.Add(-1)
	// The number goes down before the token comes: waitForRoom reads it after the token.
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

func (l *queueListener) pause(soft context.Context, d time.Duration) {
	timer := l.clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
	case <-l.woken:
	case <-soft.Done():
	}
}
