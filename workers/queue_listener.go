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

	queue, poison queueClient // poison is nil if the queue has none
	random        func() float64

	inFlight atomic.Int64
	freed    chan struct{} // has a token when a message was finished since it was last drained
	woken    chan struct{} // has a token when wake was called
	working  sync.WaitGroup

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
		random: rand.Float64,
		freed:  make(chan struct{}, 1),
		woken:  make(chan struct{}, 1),
	}
	l.wrapped = a.compose(l.callHandler)
	var err error
	if l.queue, err = a.openQueue(storage, s.queueName); err != nil {
		return nil, err
	}
	if l.policy.hasPoison {
		l.poison, err = a.openQueue(storage, s.queueName+poisonSuffix)
	}
	return l, err
}

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
	for soft.Err() == nil {
		messages, err := l.poll(hard)
		switch {
		case err == nil:
			if failing != "" {
				l.log.Info("polling works again")
			}
			failing = ""
		case hard.Err() != nil:
		case err.Error() != failing:
			failing = err.Error()
			l.function.stats.lastError.Store(&LastError{l.clock.Now(), err})
			l.log.Error("cannot poll; trying on", "err", err)
		}
		if len(messages) == 0 {
			l.pause(soft, backOff.empty(l.random()))
			continue
		}
		backOff.found()
		l.begin(soft, hard, messages)
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
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	messages := make([]*delivery, 0, len(got))
	for _, m := range got {
		messages = append(messages, newDelivery(l, m, asked.Add(l.settings.lease)))
	}
	return messages, nil
}

func (l *queueListener) begin(soft, hard context.Context, messages []*delivery) {
	for _, d := range messages {
		l.inFlight.Add(1)
		l.function.stats.inFlight.Add(1)
		l.working.Go(func() {
			defer l.end()
			d.live(soft, hard)
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

func (l *queueListener) pause(soft context.Context, d time.Duration) {
	timer := l.clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
	case <-l.woken:
	case <-soft.Done():
	}
}
