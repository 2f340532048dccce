package workers

import (
	"encoding/json"
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
	"github.com/lazuli-storage/lazuli/internal/sdk/sdkerr"
)

// stats are a function's counters since New.
type stats struct {
	inFlight                                                       atomic.Int64
	succeeded, failed, poisoned, snoozed, leaseRenewals, leaseLost atomic.Int64
	released, stuck, begun, putBack                                atomic.Int64
	lastError                                                      atomic.Pointer[LastError]

	duration, age prometheus.Histogram

	mu       sync.Mutex                       // guards the next fields
	running  map[*InvocationContext]time.Time // running calls with their start times
	finished rate
	hour     minutes.Ring // 0: succeeded, 1: failed
	past     recent.Calls[Call]
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

func (s *stats) fail(at time.Time, err error) { s.lastError.Store(&LastError{at, err}) }

// LastError is an error and its time.
type LastError struct {
	At  time.Time
	Err error
}

// MarshalJSON returns {"At": ..., "Err": TEXT}: an error has no JSON of its own.
func (e LastError) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		At  time.Time
		Err string
	}{e.At, sdkerr.Text(e.Err)})
}

// Running describes a running call.
type Running struct {
	InvocationID string
	// MessageID is the message's id; empty for timers.
	MessageID string
	// Attempt is 1 for the first.
	Attempt int32
	Since   time.Time
}

// FunctionStats is a snapshot of a function's counters in this process.
type FunctionStats struct {
	Name, Trigger string
	// Queue is the queue that the function's messages come from, or those by priority with ", " between them; empty for
	// timers.
	Queue string
	// Paused is true after a Pause.
	Paused bool
	// InFlight is the number of in-flight messages or timer runs.
	InFlight int64
	// Running are the running calls, oldest first. Messages that wait for their key (ConcurrencyPerKey) are in flight and
	// not running.
	Running []Running
	// Succeeded and Failed count finished calls by their result.
	Succeeded, Failed int64
	// LastHour counts finished calls by the minute.
	LastHour LastHour
	// PerSecond is the number of calls that finished per second, over the last minute.
	PerSecond float64
	// Poisoned counts messages moved to the poison queue, Snoozed messages postponed with Snooze, Released messages
	// released because the app stopped.
	Poisoned, Snoozed, Released int64
	// PutBack counts deliveries that the limit of a key (WithRateLimitPerKey) has put back.
	PutBack int64
	// LeaseRenewals counts successful renewals, LeaseLost lost leases.
	LeaseRenewals, LeaseLost int64
	// Stuck counts abandoned handlers.
	Stuck int64
	// LastError is the last error of a handler or of the trigger; nil without errors.
	LastError *LastError
}

// LastHour holds the finished calls of the last 60 minutes by their result, those of the oldest minute first. The last
// minute is the current one.
type LastHour struct {
	Succeeded []int64 `json:"succeeded"`
	Failed    []int64 `json:"failed"`
}

// Stats returns a snapshot of every function, in the order of registration. It can be called at any time.
func (a *App) Stats() []FunctionStats {
	all := make([]FunctionStats, 0, len(a.functions))
	for _, f := range a.functions {
		s := &f.stats
		snapshot := FunctionStats{
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

func (s *stats) lastHour(now time.Time) LastHour {
	s.mu.Lock()
	defer s.mu.Unlock()
	return LastHour{s.hour.List(now, 0), s.hour.List(now, 1)}
}

func (s *stats) calls() []Running {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []Running
	for ic, since := range s.running {
		list = append(list, Running{ic.InvocationID, ic.messageID, ic.RetryContext.RetryCount + 1, since})
	}
	slices.SortFunc(list, func(a, b Running) int { return a.Since.Compare(b.Since) })
	return list
}
