package workers

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lazuli-storage/lazuli/internal/minutes"
	"github.com/lazuli-storage/lazuli/internal/recent"
	"github.com/lazuli-storage/lazuli/workers/status"
)

// stats are a function's counters since New.
type stats struct {
	inFlight                                                       atomic.Int64
	succeeded, failed, poisoned, snoozed, leaseRenewals, leaseLost atomic.Int64
	released, stuck, begun, putBack                                atomic.Int64
	lastError                                                      atomic.Pointer[status.LastError]

	duration, age prometheus.Histogram

	mu       sync.Mutex                       // guards the next fields
	running  map[*InvocationContext]time.Time // running calls with their start times
	finished rate
	hour     minutes.Ring // 0: succeeded, 1: failed
	past     recent.Calls[status.Call]
}

// rateSeconds is the time over which the rate of finished calls is the mean, in seconds.
const rateSeconds = 60

// rate counts calls in each of the last seconds.
type rate [rateSeconds]struct{ unix, calls int64 }

func (r *rate) add(now time.Time) {
	second := &r[(now.Unix()%rateSeconds+rateSeconds)%rateSeconds]
	if second.unix != now.Unix() {
		second.unix, second.calls = now.Unix(), 0
	}
	second.calls++
}

// perSecond is the mean over the last minute.
func (r *rate) perSecond(now time.Time) float64 {
	var calls int64
	for _, second := range r {
		if age := now.Unix() - second.unix; age >= 0 && age < rateSeconds {
			calls += second.calls
		}
	}
	return float64(calls) / rateSeconds
}

// Histogram buckets in seconds, for the duration of handler calls and for the age of messages when their handler is
// called.
var (
	durationBuckets = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800}
	ageBuckets      = []float64{.001, .005, .01, .05, .1, .5, 1, 5, 10, 60, 300, 1800, 3600, 6 * 3600, 86400}
)

func (s *stats) init() {
	s.running = make(map[*InvocationContext]time.Time)
	s.duration = prometheus.NewHistogram(prometheus.HistogramOpts{Name: "duration", Buckets: durationBuckets})
	s.age = prometheus.NewHistogram(prometheus.HistogramOpts{Name: "age", Buckets: ageBuckets})
}

// call records a running call until the returned function is called.
func (s *stats) call(ic *InvocationContext, clock Clock) (end func()) {
	began := clock.Now()
	s.begun.Add(1)
	s.mu.Lock()
	ic.began, s.running[ic] = began, began
	s.mu.Unlock()
	return func() {
		now := clock.Now()
		s.mu.Lock()
		delete(s.running, ic)
		s.finished.add(now)
		s.mu.Unlock()
		s.duration.Observe(now.Sub(began).Seconds())
	}
}

// end counts a finished call.
func (s *stats) end(ic *InvocationContext, now time.Time, err error) {
	kind := 0
	if err == nil {
		s.succeeded.Add(1)
	} else {
		kind = 1
		s.failed.Add(1)
	}
	s.mu.Lock()
	s.hour.Add(now, kind, 1)
	s.remember(ic, now, err)
	s.mu.Unlock()
}

// snooze counts a call whose message is postponed.
func (s *stats) snooze(ic *InvocationContext, now time.Time, err error) {
	s.snoozed.Add(1)
	s.mu.Lock()
	s.remember(ic, now, err)
	s.mu.Unlock()
}

// cancel records a call whose job was cancelled. It counts neither as succeeded nor as failed.
func (s *stats) cancel(ic *InvocationContext, now time.Time, err error) {
	if !errors.Is(err, ErrCancelled) {
		err = fmt.Errorf("%w: %w", ErrCancelled, err)
	}
	s.mu.Lock()
	s.remember(ic, now, err)
	s.mu.Unlock()
}

func (s *stats) fail(at time.Time, err error) { s.lastError.Store(&status.LastError{At: at, Err: err}) }

// Stats returns a snapshot of every function, in the order of registration. It can be called at any time.
func (a *App) Stats() []status.Function {
	all := make([]status.Function, 0, len(a.functions))
	for _, f := range a.functions {
		s := &f.stats
		snapshot := status.Function{
			Name: f.name, Trigger: f.trigger, Paused: f.gate.paused(), Running: s.calls(),
			PerSecond: s.perSecond(a.config.Clock.Now()), LastHour: s.lastHour(a.config.Clock.Now()),
			InFlight: s.inFlight.Load(), Succeeded: s.succeeded.Load(), Failed: s.failed.Load(),
			Poisoned: s.poisoned.Load(), Snoozed: s.snoozed.Load(), Released: s.released.Load(),
			PutBack:       s.putBack.Load(),
			LeaseRenewals: s.leaseRenewals.Load(), LeaseLost: s.leaseLost.Load(), Stuck: s.stuck.Load(),
			LastError: s.lastError.Load(),
		}
		if f.fromQueue() {
			snapshot.Queue = strings.Join(f.queues(), ", ")
		}
		all = append(all, snapshot)
	}
	return all
}

func (s *stats) perSecond(now time.Time) float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.finished.perSecond(now)
}

func (s *stats) lastHour(now time.Time) status.LastHour {
	s.mu.Lock()
	defer s.mu.Unlock()
	return status.LastHour{Succeeded: s.hour.List(now, 0), Failed: s.hour.List(now, 1)}
}

func (s *stats) calls() []status.Running {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []status.Running
	for ic, since := range s.running {
		list = append(list, status.Running{InvocationID: ic.InvocationID, MessageID: ic.messageID,
			Attempt: ic.RetryContext.RetryCount + 1, Since: since})
	}
	slices.SortFunc(list, func(a, b status.Running) int { return a.Since.Compare(b.Since) })
	return list
}
