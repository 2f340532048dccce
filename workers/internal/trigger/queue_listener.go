package trigger

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
	"github.com/lazuli-storage/lazuli/workers/bindings"
	"github.com/lazuli-storage/lazuli/workers/internal/calls"
	"github.com/lazuli-storage/lazuli/workers/internal/queues"
	"github.com/lazuli-storage/lazuli/workers/internal/ratelimit"
)

// QueueHandler handles one message.
type QueueHandler = func(ctx context.Context, m bindings.QueueMessage) error

// QueueListener runs a queue trigger: one goroutine polls, and one goroutine handles each message.
type QueueListener struct {
	env      *Environment
	function *Function
	Settings Settings
	handler  QueueHandler
	policy   queues.Policy
	clock    calls.Clock
	log      *slog.Logger
	stuck    time.Duration

	Queue, Poison queues.Client // queues.Azure; Poison is nil if the queue has no poison queue
	PoisonName    string
	records       func(context.Context, poison.Record) error // nil if the account has no tables
	reasons       *reasons                                   // of the messages, if the queue is a poison queue; else nil
	random        func() float64

	keys    *queues.KeyLimit  // nil if messages are not limited by key
	limits  *ratelimit.Limits // nil without a limit of rate
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

// NewMessageListener makes the listener of a queue trigger.
func NewMessageListener(env *Environment, f *Function, h QueueHandler) (Listener, error) {
	if f.Settings.Priority != nil {
		return newPriorityListener(env, f, h)
	}
	return NewQueueListener(env, f, h)
}

// NewQueueListener makes the listener of the function's queue.
func NewQueueListener(env *Environment, f *Function, h QueueHandler) (*QueueListener, error) {
	return newQueueListenerOf(env, f, h, f.Settings.QueueName)
}

// newQueueListenerOf makes a listener of one of the function's queues.
func newQueueListenerOf(env *Environment, f *Function, h QueueHandler, queue string) (*QueueListener, error) {
	s := f.Settings
	s.QueueName = queue
	if s.NewBatchThreshold < 0 {
		// This is the default of Azure Functions: half a batch for each processor.
		s.NewBatchThreshold = s.BatchSize / 2 * runtime.GOMAXPROCS(0)
	}
	if s.MaxPolling == 0 {
		s.MaxPolling = time.Minute
		if env.Local {
			s.MaxPolling = 2 * time.Second
		}
	}
	l := &QueueListener{
		env:      env,
		function: f,
		Settings: s,
		handler:  h,
		policy: queues.Policy{
			MaxDequeueCount: s.MaxDequeueCount,
			Retry:           s.Retry,
			HasPoison: !strings.HasSuffix(s.QueueName, poison.Suffix) &&
				queues.ValidateName(s.QueueName+poison.Suffix) == nil,
		},
		clock:  env.Clock,
		log:    env.Log.With("queue", s.QueueName),
		stuck:  env.Stuck,
		random: rand.Float64,
		flow:   newFlow(),
	}
	if s.Key != nil {
		l.keys = queues.NewKeyLimit(s.PerKey)
	}
	l.jobs.l = l
	var err error
	rates := ratelimit.Settings{Rate: s.Rate, KeyRate: s.KeyRate}
	if l.limits, err = ratelimit.New(env.Tables, env.HostID+":"+f.Name, rates, env.Clock, l.log); err != nil {
		return nil, err
	}
	if l.Queue, err = env.OpenQueue(s.QueueName); err != nil {
		return nil, err
	}
	if tables := env.Tables; tables != nil {
		l.records = func(ctx context.Context, r poison.Record) error { return poison.Write(ctx, tables, r) }
		if strings.HasSuffix(s.QueueName, poison.Suffix) {
			l.reasons = &reasons{tables, s.QueueName}
		}
	}
	if l.policy.HasPoison {
		l.PoisonName = s.QueueName + poison.Suffix
		l.Poison, err = env.OpenQueue(s.QueueName + poison.Suffix)
	}
	return l, err
}

// MessageQueue implements Queued.
func (l *QueueListener) MessageQueue() queues.Client { return l.Queue }

// Wake ends the pause between two polls.
func (f *flow) Wake() {
	select {
	case f.woken <- struct{}{}:
	default:
	}
}

// Listen polls until soft is done. It lets the last poll finish: if that were cancelled, messages could be leased at
// the service although no instance handles them.
func (l *QueueListener) Listen(soft, hard context.Context) error {
	backOff := queues.PollingBackOff{Max: l.Settings.MaxPolling}
	l.canWait = true
	for l.function.Gate.Pass(soft) {
		n := l.limits.Most(soft, l.Settings.BatchSize, l.function.Batch != nil)
		if n == 0 || l.function.Gate.Paused() {
			continue // It was stopped or paused while it waited.
		}
		r := l.poll(soft, hard, n)
		l.note(hard, r.err)
		switch {
		case r.messages > 0:
			backOff.Found()
			// There may be more messages: the next poll follows without a pause.
			l.waitForRoom(soft)
		case !r.waited:
			l.pause(soft, backOff.Empty(l.random()))
		case r.took < queues.MinPollingInterval && !r.interrupted: // as a service ends waits while it stops
			l.pause(soft, queues.MinPollingInterval)
		}
	}
	return l.drained()
}

// note logs the outcome of a poll if it is another one than that of the last.
func (l *QueueListener) note(hard context.Context, err error) {
	switch {
	case err == nil:
		if l.failing != "" {
			l.log.Info("polling works again")
		}
		l.failing = ""
	case hard.Err() != nil:
	case sdkerr.Text(err) != l.failing:
		l.failing = sdkerr.Text(err)
		l.function.Stats.Fail(l.clock.Now(), err)
		l.log.Error("poll failed; retrying", "err", sdkerr.Short(err))
	}
}

// drained waits for the handlers, as a stop does, and returns an error if some did not return.
func (l *QueueListener) drained() error {
	l.working.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.abandoned > 0 {
		return fmt.Errorf("function %q: %d of its calls: %w", l.function.Name, l.abandoned, calls.ErrStuck)
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

// poll receives up to n messages and begins with them. It treats a queue that does not exist as empty. If the service
// supports it, it waits for messages.
func (l *QueueListener) poll(soft, hard context.Context, n int) polled {
	most := queues.LongWait
	if !l.canWait {
		most = 0
	}
	return l.pollFor(soft, hard, soft, n, most)
}

// pollFor is poll for up to n messages. It waits for them for at most the given time, until until is done.
func (l *QueueListener) pollFor(soft, hard, until context.Context, n int, most time.Duration) (r polled) {
	wait, excluded, end := l.function.Gate.polls.Begin(most)
	defer end()
	stop, interrupt := context.WithCancel(until)
	defer interrupt()
	if wait > 0 {
		go l.watch(stop, excluded, interrupt)
	}
	asked := l.clock.Now()
	// soft ends the wait through stop, at which the service answers. Cancelling the request could lose messages that it
	// has leased.
	got, waited, err := l.Queue.Receive(hard, n, l.Settings.Lease, wait, stop.Done())
	r.took, r.interrupted = l.clock.Now().Sub(asked), stop.Err() != nil || wait == 0 && l.canWait
	// The service starts the lease between the request and its response; the earlier time is safe. After a wait, it has
	// started the lease just before the response.
	leaseEnd := asked.Add(max(0, r.took-min(time.Second, l.Settings.Lease/4)) + l.Settings.Lease)
	if errors.Is(err, queues.ErrNoQueue) {
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
func (l *QueueListener) createQueue(ctx context.Context) error {
	if l.function.Trigger != QueueTrigger {
		return nil
	}
	if l.Settings.Wait {
		if !l.absent {
			l.log.Warn("the queue does not exist; waiting for it")
		}
		l.absent = true
		return nil
	}
	if err := l.Queue.Create(ctx); err != nil {
		return fmt.Errorf("create the queue: %w", err)
	}
	l.log.Info("created the queue")
	return nil
}

// watch interrupts a poll that waits when something else is to be done.
func (l *QueueListener) watch(stop context.Context, excluded <-chan struct{}, interrupt func()) {
	select {
	case <-excluded:
	case <-l.woken:
	case <-l.function.Gate.Changed():
	case <-stop.Done():
	}
	interrupt()
}

func (l *QueueListener) begin(soft, hard context.Context, messages []*delivery) {
	var batch *batchCall
	if l.function.Batch != nil && len(messages) > 0 {
		batch = newBatchCall(l, soft, len(messages))
	}
	for _, d := range messages {
		d.batch = batch
		if l.keys != nil {
			// Not in the goroutine: messages with the same key keep their order.
			if d.key = l.Settings.Key(d.body); d.key != "" {
				d.turn = l.keys.Join(d.key)
			}
		}
		l.inFlight.Add(1)
		l.function.Stats.InFlight.Add(1)
		l.working.Go(func() {
			defer l.end()
			d.run(soft, hard) // delivery.go: it ends when the message is settled at the service.
		})
	}
}

func (l *QueueListener) end() {
	l.function.Stats.InFlight.Add(-1)
	// The number goes down before the token comes: waitForRoom reads it after the token.
	l.inFlight.Add(-1)
	select {
	case l.freed <- struct{}{}:
	default:
	}
}

// waitForRoom returns when the number of in-flight messages allows another batch, or soft is done.
func (l *QueueListener) waitForRoom(soft context.Context) {
	for l.inFlight.Load() > int64(l.Settings.NewBatchThreshold) {
		select {
		case <-l.freed:
		case <-soft.Done():
			return
		}
	}
}

func (l *QueueListener) pause(soft context.Context, d time.Duration) {
	timer := l.clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
	case <-l.woken:
	case <-soft.Done():
	}
}

// Idle reports whether the queue has no work now: no message is visible or in flight.
func (l *QueueListener) Idle(ctx context.Context) (bool, error) {
	l.Wake()                                // It may be in a long pause.
	defer l.function.Gate.polls.Exclude()() // A message that was just received is neither visible nor in flight.
	n := l.inFlight.Load()
	if l.limits.Blocked(n) {
		return true, nil // It has no work until time passes.
	}
	if n > 0 {
		return false, nil
	}
	_, oldest, err := l.Queue.Depth(ctx)
	if errors.Is(err, queues.ErrNoQueue) {
		return true, nil
	}
	return oldest.IsZero(), err
}
