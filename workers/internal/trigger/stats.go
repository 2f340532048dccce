package trigger

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
	"github.com/lazuli-storage/lazuli/internal/sdk/sdkerr"
	"github.com/lazuli-storage/lazuli/workers/internal/calls"
	"github.com/lazuli-storage/lazuli/workers/status"
)

// Stats are a function's counters since New.
type Stats struct {
	InFlight                                                       atomic.Int64
	Succeeded, Failed, Poisoned, Snoozed, LeaseRenewals, LeaseLost atomic.Int64
	Released, Stuck, begun, PutBack                                atomic.Int64
	lastError                                                      atomic.Pointer[status.LastError]

	Duration, Age prometheus.Histogram

	mu       sync.Mutex                // guards the next fields
	running  map[*Invocation]time.Time // running calls with their start times
	finished rate
	hour     minutes.Ring // 0: succeeded, 1: failed
	past     recent.Calls[status.Call]
}

// Histogram buckets in seconds, for the duration of handler calls and for the age of messages when their handler is
// called.
var (
	durationBuckets = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800}
	ageBuckets      = []float64{.001, .005, .01, .05, .1, .5, 1, 5, 10, 60, 300, 1800, 3600, 6 * 3600, 86400}
)

func (s *Stats) init() {
	s.running = make(map[*Invocation]time.Time)
	s.Duration = prometheus.NewHistogram(prometheus.HistogramOpts{Name: "duration", Buckets: durationBuckets})
	s.Age = prometheus.NewHistogram(prometheus.HistogramOpts{Name: "age", Buckets: ageBuckets})
}

// Call records a running call until the returned function is called.
func (s *Stats) Call(i *Invocation, clock calls.Clock) (end func()) {
	began := clock.Now()
	s.begun.Add(1)
	s.mu.Lock()
	i.began, s.running[i] = began, began
	s.mu.Unlock()
	return func() {
		now := clock.Now()
		s.mu.Lock()
		delete(s.running, i)
		s.finished.add(now)
		s.mu.Unlock()
		s.Duration.Observe(now.Sub(began).Seconds())
	}
}

// End counts a finished call.
func (s *Stats) End(i *Invocation, now time.Time, err error) {
	kind := 0
	if err == nil {
		s.Succeeded.Add(1)
	} else {
		kind = 1
		s.Failed.Add(1)
	}
	s.mu.Lock()
	s.hour.Add(now, kind, 1)
	s.remember(i, now, err)
	s.mu.Unlock()
}

// snooze counts a call whose message is postponed.
func (s *Stats) snooze(i *Invocation, now time.Time, err error) {
	s.Snoozed.Add(1)
	s.mu.Lock()
	s.remember(i, now, err)
	s.mu.Unlock()
}

// cancel records a call whose job was cancelled. It counts neither as succeeded nor as failed.
func (s *Stats) cancel(i *Invocation, now time.Time, err error) {
	if !errors.Is(err, calls.ErrCancelled) {
		err = fmt.Errorf("%w: %w", calls.ErrCancelled, err)
	}
	s.mu.Lock()
	s.remember(i, now, err)
	s.mu.Unlock()
}

// Activity counts started and finished calls.
func (s *Stats) Activity() int64 {
	return s.begun.Load() + s.Succeeded.Load() + s.Failed.Load() + s.Snoozed.Load()
}

// Fail keeps an error as the last one.
func (s *Stats) Fail(at time.Time, err error) { s.lastError.Store(&status.LastError{At: at, Err: err}) }

func (s *Stats) perSecond(now time.Time) float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.finished.perSecond(now)
}

func (s *Stats) lastHour(now time.Time) status.LastHour {
	s.mu.Lock()
	defer s.mu.Unlock()
	return status.LastHour{Succeeded: s.hour.List(now, 0), Failed: s.hour.List(now, 1)}
}

func (s *Stats) calls() []status.Running {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []status.Running
	for i, since := range s.running {
		list = append(list, status.Running{InvocationID: i.ID, MessageID: i.MessageID,
			Attempt: i.RetryCount + 1, Since: since})
	}
	slices.SortFunc(list, func(a, b status.Running) int { return a.Since.Compare(b.Since) })
	return list
}

// KeptError bounds the text of an error that is kept of a call, in bytes.
const KeptError = 2 << 10

// remember keeps a call that has ended at now with err. The caller holds s.mu.
func (s *Stats) remember(i *Invocation, now time.Time, err error) {
	c := status.Call{InvocationID: i.ID, MessageID: i.MessageID, Attempt: i.RetryCount + 1,
		Began: i.began, Outcome: status.Succeeded}
	if c.Began.IsZero() { // ended before its handler began
		c.Began = now
	}
	c.Seconds = now.Sub(c.Began).Seconds()
	snooze := (*calls.SnoozeError)(nil)
	switch {
	case err == nil:
	case errors.As(err, &snooze):
		c.Outcome = status.Snoozed
	case errors.Is(err, calls.ErrCancelled):
		c.Outcome, c.Error = status.Cancelled, keptText(err)
	default:
		c.Outcome, c.Error = status.Failed, keptText(err)
	}
	number := s.past.Add(c)
	if c.Outcome == status.Failed {
		s.past.Fail(number, c)
	}
}

// Ended returns what Calls does.
func (s *Stats) Ended() []status.Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.past.All()
}

// keptText is the text of an error that is kept of a call.
func keptText(err error) string {
	text := sdkerr.Text(err)
	if len(text) > KeptError {
		text = strings.ToValidUTF8(text[:KeptError], "") + "..."
	}
	return text
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
