package timertrigger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/lazuli-storage/lazuli/internal/sdk/ncrontab"
	"github.com/lazuli-storage/lazuli/internal/sdk/sdkerr"
	"github.com/lazuli-storage/lazuli/workers/bindings"
	"github.com/lazuli-storage/lazuli/workers/internal/calls"
	"github.com/lazuli-storage/lazuli/workers/internal/locks"
	"github.com/lazuli-storage/lazuli/workers/internal/trigger"
)

// lastRun is the record of a timer, in the format of Azure Functions with one additional field.
type lastRun struct {
	Last        time.Time
	Next        time.Time
	LastUpdated time.Time
	// Expression is the schedule of Next, which is ignored after a change of the schedule.
	Expression string `json:",omitempty"`
}

// firstRun returns the time of the first run after an instance acquired the timer's lock, and whether that run was
// missed. status is the zero value without a record.
func firstRun(schedule ncrontab.Schedule, expression string, status lastRun, now time.Time) (next time.Time,
	pastDue bool) {
	known := !status.Next.IsZero() &&
		(status.Expression == expression || status.Expression == "" && schedule.Next(status.Last).Equal(status.Next))
	switch {
	case !known:
		return schedule.Next(now), false
	case status.Next.Before(now):
		return now, true
	}
	// A record of a clock that was ahead must not hold the timer back until its time has come. A run that was recorded a
	// moment ahead of this clock is not repeated.
	after := now
	if status.Last.After(now) && status.Last.Sub(now) <= clockTolerance {
		after = status.Last
	}
	if scheduled := schedule.Next(after); scheduled.Before(status.Next) && !scheduled.IsZero() {
		return scheduled, false
	}
	return status.Next, false
}

// clockTolerance is by how much a clock may step back, or those of two processes may differ, without a scheduled time
// that runs twice. After a larger step the times of the clock count, and not those before it.
const clockTolerance = time.Minute

// listener runs a timer trigger.
type listener struct {
	env      *trigger.Environment
	function *trigger.Function
	schedule ncrontab.Schedule
	handler  func(context.Context, bindings.TimerInfo) error
	store    locks.Store
	lock     *locks.Singleton
	record   string // name of the status record; empty if the timer is not monitored
	clock    calls.Clock
	log      *slog.Logger
	gaveUp   error
	waits    atomic.Pointer[time.Time] // end of the current wait; nil if it does not wait
}

// New makes the listener of a timer.
func New(env *trigger.Environment, f *trigger.Function, schedule ncrontab.Schedule,
	h func(context.Context, bindings.TimerInfo) error) (*listener, error) {
	store, err := env.OpenHost()
	if err != nil {
		return nil, fmt.Errorf("a timer needs blobs for its lock: %w", err)
	}
	l := &listener{
		env: env, function: f, schedule: schedule, handler: h, store: store, clock: env.Clock, log: env.Log,
		lock: env.Singleton(store, f.Name+".Listener"),
	}
	monitor := l.farApart(env.Clock.Now())
	if f.Settings.Monitor != nil {
		monitor = *f.Settings.Monitor
	}
	if monitor {
		l.record = "timers/" + env.HostID + "/" + f.Name + "/status"
	}
	return l, nil
}

// expression is the schedule with its time zone, for the record.
func (l *listener) expression() string {
	s := &l.function.Settings
	if s.Location == nil || s.Location == time.UTC {
		return s.Schedule
	}
	return s.Schedule + " " + s.Location.String()
}

// farApart reports whether the next runs of the schedule are at least a minute apart.
func (l *listener) farApart(now time.Time) bool {
	first := l.schedule.Next(now)
	return l.schedule.Next(first).Sub(first) >= time.Minute
}

// Wake implements trigger.Listener: a timer has nothing to look for.
func (l *listener) Wake() {}

// Listen implements trigger.Listener.
func (l *listener) Listen(soft, hard context.Context) error {
	l.lock.Lead(soft, hard, l.keep)
	return l.gaveUp
}

// keep runs the timer while this instance holds its lock.
func (l *listener) keep(soft, hard context.Context) {
	defer l.waits.Store(nil)
	status, err := l.load(hard)
	if err != nil {
		if soft.Err() == nil {
			l.log.Error("reading the record of the timer failed; retrying", "err", sdkerr.Short(err))
			l.lock.Pause(soft, l.lock.Retry)
		}
		return
	}
	next, pastDue := firstRun(l.schedule, l.expression(), status, l.clock.Now())
	if l.function.Settings.RunOnStartup && !pastDue {
		next = l.clock.Now()
	} else if status.Next.IsZero() {
		// With a record, a missed first run is recognized.
		status = l.save(hard, status.Last, next)
	}
	for {
		l.waitUntil(soft, next)
		if soft.Err() != nil {
			return
		}
		// If the clock was set back a little, the same scheduled time must not run twice. If it was ahead and is right now,
		// the timer must not wait until it has caught up.
		at := l.clock.Now()
		if at.Before(next) && next.Sub(at) <= clockTolerance {
			at = next
		}
		if !l.attempt(soft, hard, l.info(status, next, pastDue)) {
			return // Interrupted: in the record this run is still due.
		}
		if end := l.clock.Now(); end.After(at) {
			next = l.schedule.Next(end)
		} else {
			next = l.schedule.Next(at)
		}
		status = l.save(hard, at, next)
		pastDue = false
	}
}

// attempt calls the handler, with retries, and returns false if it was interrupted.
func (l *listener) attempt(soft, hard context.Context, info bindings.TimerInfo) bool {
	s := &l.function.Settings
	for failures := int64(0); ; {
		if l.function.Gate.Paused() {
			l.log.Info("the function is paused; skipping its run")
			return true
		}
		err := l.call(hard, info, failures)
		if hard.Err() != nil || l.gaveUp != nil || soft.Err() != nil && errors.Is(err, calls.ErrStopping) {
			return false
		}
		var permanent *calls.PermanentError
		if err == nil || errors.As(err, &permanent) || s.MaxRetries >= 0 && failures >= int64(s.MaxRetries) {
			return true
		}
		failures++
		delay := s.Retry.Delay(failures)
		var after *calls.RetryAfterError
		if errors.As(err, &after) {
			delay = after.Delay
		}
		l.waitUntil(soft, l.clock.Now().Add(delay))
		if soft.Err() != nil {
			return false
		}
	}
}

// waitUntil waits until a time, or until soft is done. The zero time, of a schedule for a day that no month has, never
// comes.
func (l *listener) waitUntil(soft context.Context, at time.Time) {
	if at.IsZero() {
		<-soft.Done()
		return
	}
	timer := l.clock.NewTimer(at.Sub(l.clock.Now()))
	defer timer.Stop()
	l.waits.Store(&at) // After the timer was created: a test may advance the clock now.
	select {
	case <-timer.C():
	case <-soft.Done():
	}
}

func (l *listener) load(ctx context.Context) (lastRun, error) {
	var status lastRun
	if l.record == "" {
		return status, nil
	}
	text, err := l.store.Read(ctx, l.record)
	if err != nil || text == nil {
		return status, err
	}
	if err := json.Unmarshal(text, &status); err != nil {
		l.log.Warn("the record of the timer is not valid; ignoring it", "err", sdkerr.Short(err))
		return lastRun{}, nil
	}
	return status, nil
}

// save records a run. An error is only logged: the run may be repeated.
func (l *listener) save(ctx context.Context, last, next time.Time) lastRun {
	status := lastRun{Last: last.UTC(), Next: next.UTC(), LastUpdated: l.clock.Now().UTC(), Expression: l.expression()}
	if l.record == "" {
		return status
	}
	text, err := json.Marshal(status)
	if err == nil {
		err = l.store.Write(ctx, l.record, text)
	}
	if err != nil {
		l.log.Error("recording the timer's run failed", "err", sdkerr.Short(err))
	}
	return status
}

func (l *listener) info(status lastRun, next time.Time, pastDue bool) bindings.TimerInfo {
	return bindings.TimerInfo{
		ScheduleStatus: bindings.TimerScheduleStatus{
			Last: status.Last.UTC().Format(time.RFC3339Nano), Next: next.UTC().Format(time.RFC3339Nano),
			LastUpdated: status.LastUpdated.UTC().Format(time.RFC3339Nano),
		},
		IsPastDue: pastDue,
	}
}

func (l *listener) call(hard context.Context, info bindings.TimerInfo, failures int64) error {
	i := &trigger.Invocation{ID: uuid.NewString(), RetryCount: int32(failures),
		MaxRetryCount: int32(l.function.Settings.MaxRetries), Metadata: map[string]string{}}
	handle := func(ctx context.Context) error { return l.handler(ctx, info) }
	err, gaveUp := l.function.CallAlone(hard, l.env, l.log, i, handle)
	if gaveUp != nil {
		l.gaveUp = gaveUp
	}
	return err
}

// Idle reports whether the timer waits, here or in another instance.
func (l *listener) Idle(context.Context) (bool, error) {
	if l.lock.Elsewhere.Load() {
		return true, nil
	}
	until := l.waits.Load()
	return until != nil && until.After(l.clock.Now()) && l.function.Stats.InFlight.Load() == 0, nil
}
