package workers

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
)

// TimerInfo is the argument of a timer handler.
type TimerInfo = bindings.TimerInfo

// TimerHandler handles one run of a timer.
type TimerHandler func(ctx context.Context, t TimerInfo) error

// WithSchedule sets when a timer runs, in UTC or in the zone of WithTimeZone: an NCRONTAB expression of six fields,
// "{second} {minute} {hour} {day} {month} {day of week}", or an interval "hh:mm:ss". Names of months and days may be
// cut short. https://learn.microsoft.com/azure/azure-functions/functions-bindings-timer#ncrontab-expressions
func WithSchedule(schedule string) TimerOption {
	return timerOption(func(s *settings) { s.schedule = schedule })
}

// WithTimeZone sets the time zone of a timer's schedule. When clocks are set forward, a time of day that is left out is
// moved by the time that is left out; when they are set back, a time of day that comes twice counts once. Schedules for
// all hours run every hour that passes. Default UTC.
func WithTimeZone(location *time.Location) TimerOption {
	return timerOption(func(s *settings) { s.location = location })
}

// WithRunOnStartup(true) makes a timer also run when an instance acquires its lock.
func WithRunOnStartup(run bool) TimerOption {
	return timerOption(func(s *settings) { s.runOnStartup = run })
}

// WithMaxRetryCount sets how often a failed run of a timer is retried, after the delays of WithRetry, before the next
// scheduled run; -1 means until it succeeds. Default 0. The count is in memory: if the process dies, the run counts as
// missed, and another instance starts over. As in Azure Functions, retry policies are for timers; messages have
// WithMaxDequeueCount.
func WithMaxRetryCount(n int) TimerOption {
	return timerOption(func(s *settings) { s.maxRetries = n })
}

// WithMonitor sets whether a timer records its runs in the storage account, so that a run that was missed while no
// instance was running happens later, once. Default: true if the runs are at least a minute apart.
func WithMonitor(monitor bool) TimerOption {
	return timerOption(func(s *settings) { s.monitor = &monitor })
}

// Timer registers a handler that runs at the times of WithSchedule.
//
// Of all instances of an app (Config.HostID) on one storage account, one runs the timer. It holds a blob lease; another
// instance takes over when it stops or dies. Runs do not overlap: the next run is the first time of the schedule after
// the end of the last run. A run that was missed because no instance was running happens once, late, with IsPastDue. A
// failed run is logged, and is retried only with WithMaxRetryCount. A run whose process died is repeated if the timer
// is monitored.
func (a *App) Timer(name string, h TimerHandler, options ...TimerOption) *Function {
	f := register(a, name, timerTrigger, options)
	if h == nil {
		a.errs = append(a.errs, fmt.Errorf("workers: function %q: the handler is nil", name))
	}
	if f.settings.maxRetries < -1 || f.settings.retry == nil {
		a.errs = append(a.errs, fmt.Errorf(
			"workers: function %q: the maximum retry count %d is less than -1, or the retry policy is nil", name,
			f.settings.maxRetries))
	}
	schedule, err := ncrontab.Parse(f.settings.schedule)
	if err != nil {
		a.errs = append(a.errs, fmt.Errorf("workers: function %q: %w", name, err))
	}
	if f.settings.location != nil {
		schedule = schedule.In(f.settings.location)
	}
	f.listen = func(a *App, f *Function, storage *Storage) (listener, error) {
		store, err := a.openHost(storage)
		if err != nil {
			return nil, fmt.Errorf("a timer needs blobs for its lock: %w", err)
		}
		l := newTimerListener(a, f, store, schedule, h)
		l.bound = bound{a, storage}
		return l, nil
	}
	return f
}

// timerStatus is the record of a timer, in the format of Azure Functions with one additional field.
type timerStatus struct {
	Last        time.Time
	Next        time.Time
	LastUpdated time.Time
	// Expression is the schedule of Next, which is ignored after a change of the schedule.
	Expression string `json:",omitempty"`
}

// firstRun returns the time of the first run after an instance acquired the timer's lock, and whether that run was
// missed. status is the zero value without a record.
func firstRun(schedule ncrontab.Schedule, expression string, status timerStatus, now time.Time) (next time.Time,
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

// timerListener runs a timer trigger.
type timerListener struct {
	function *Function
	schedule ncrontab.Schedule
	handler  TimerHandler
	wrapped  Handler
	store    hostStore
	lock     *singleton
	record   string // name of the status record; empty if the timer is not monitored
	clock    Clock
	log      *slog.Logger
	stuck    time.Duration
	hostID   string
	bound    bound
	gaveUp   error
	waits    atomic.Pointer[time.Time] // end of the current wait; nil if it does not wait
}

func newTimerListener(a *App, f *Function, store hostStore, schedule ncrontab.Schedule, h TimerHandler) *timerListener {
	log := a.config.Logger.With("function", f.name)
	l := &timerListener{
		function: f, schedule: schedule, handler: h, store: store, clock: a.config.Clock, log: log,
		stuck: a.config.StuckTimeout, hostID: a.config.HostID,
		lock: &singleton{
			store: store, name: "locks/" + a.config.HostID + "/" + f.name + ".Listener", owner: uuid.NewString(),
			period: a.config.LockPeriod, retry: a.config.LockPeriod / 3, clock: a.config.Clock, log: log,
		},
	}
	monitor := l.farApart(a.config.Clock.Now())
	if f.settings.monitor != nil {
		monitor = *f.settings.monitor
	}
	if monitor {
		l.record = "timers/" + a.config.HostID + "/" + f.name + "/status"
	}
	l.wrapped = a.compose()
	return l
}

// expression is the schedule with its time zone, for the record.
func (l *timerListener) expression() string {
	s := &l.function.settings
	if s.location == nil || s.location == time.UTC {
		return s.schedule
	}
	return s.schedule + " " + s.location.String()
}

// farApart reports whether the next runs of the schedule are at least a minute apart.
func (l *timerListener) farApart(now time.Time) bool {
	first := l.schedule.Next(now)
	return l.schedule.Next(first).Sub(first) >= time.Minute
}

func (l *timerListener) wake() {}

func (l *timerListener) listen(soft, hard context.Context) error {
	l.lock.lead(soft, hard, l.keep)
	return l.gaveUp
}

// keep runs the timer while this instance holds its lock.
func (l *timerListener) keep(soft, hard context.Context) {
	defer l.waits.Store(nil)
	status, err := l.load(hard)
	if err != nil {
		if soft.Err() == nil {
			l.log.Error("reading the record of the timer failed; retrying", "err", sdkerr.Short(err))
			l.lock.pause(soft, l.lock.retry)
		}
		return
	}
	next, pastDue := firstRun(l.schedule, l.expression(), status, l.clock.Now())
	if l.function.settings.runOnStartup && !pastDue {
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
func (l *timerListener) attempt(soft, hard context.Context, info TimerInfo) bool {
	s := &l.function.settings
	for failures := int64(0); ; {
		if l.function.gate.paused() {
			l.log.Info("the function is paused; skipping its run")
			return true
		}
		err := l.call(hard, info, failures)
		if hard.Err() != nil || l.gaveUp != nil || soft.Err() != nil && errors.Is(err, ErrStopping) {
			return false
		}
		var permanent *permanentError
		if err == nil || errors.As(err, &permanent) || s.maxRetries >= 0 && failures >= int64(s.maxRetries) {
			return true
		}
		failures++
		delay := s.retry.Delay(failures)
		var after *retryAfterError
		if errors.As(err, &after) {
			delay = after.delay
		}
		l.waitUntil(soft, l.clock.Now().Add(delay))
		if soft.Err() != nil {
			return false
		}
	}
}

// waitUntil waits until a time, or until soft is done. The zero time, of a schedule for a day that no month has, never
// comes.
func (l *timerListener) waitUntil(soft context.Context, at time.Time) {
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

func (l *timerListener) load(ctx context.Context) (timerStatus, error) {
	var status timerStatus
	if l.record == "" {
		return status, nil
	}
	text, err := l.store.read(ctx, l.record)
	if err != nil || text == nil {
		return status, err
	}
	if err := json.Unmarshal(text, &status); err != nil {
		l.log.Warn("the record of the timer is not valid; ignoring it", "err", sdkerr.Short(err))
		return timerStatus{}, nil
	}
	return status, nil
}

// save records a run. An error is only logged: the run may be repeated.
func (l *timerListener) save(ctx context.Context, last, next time.Time) timerStatus {
	status := timerStatus{Last: last.UTC(), Next: next.UTC(), LastUpdated: l.clock.Now().UTC(), Expression: l.expression()}
	if l.record == "" {
		return status
	}
	text, err := json.Marshal(status)
	if err == nil {
		err = l.store.write(ctx, l.record, text)
	}
	if err != nil {
		l.log.Error("recording the timer's run failed", "err", sdkerr.Short(err))
	}
	return status
}

func (l *timerListener) info(status timerStatus, next time.Time, pastDue bool) TimerInfo {
	return TimerInfo{
		ScheduleStatus: bindings.TimerScheduleStatus{
			Last: status.Last.UTC().Format(time.RFC3339Nano), Next: next.UTC().Format(time.RFC3339Nano),
			LastUpdated: status.LastUpdated.UTC().Format(time.RFC3339Nano),
		},
		IsPastDue: pastDue,
	}
}

func (l *timerListener) call(hard context.Context, info TimerInfo, failures int64) error {
	stats := &l.function.stats
	stats.inFlight.Add(1)
	defer stats.inFlight.Add(-1)
	ic := &InvocationContext{
		InvocationID: uuid.NewString(), FunctionID: l.hostID + "/" + l.function.name, FunctionName: l.function.name,
		TriggerType: l.function.trigger, TriggerMetadata: map[string]string{},
		RetryContext: RetryContext{RetryCount: int32(failures), MaxRetryCount: int32(l.function.settings.maxRetries)},
	}
	ic.call = func(ctx context.Context) error { return l.handler(ctx, info) }
	defer stats.call(ic, l.clock)()
	log := l.log.With("invocation_id", ic.InvocationID)
	err := supervise(hard, supervision{clock: l.clock, timeout: l.function.settings.timeout, stuck: l.stuck, log: log},
		func(ctx context.Context) error {
			return l.wrapped(bind(NewContext(ctx, ic), l.bound.app, l.bound.storage), &MiddlewareContext{ic})
		})
	if errors.Is(err, ErrStuck) {
		stats.stuck.Add(1)
		l.gaveUp = fmt.Errorf("function %q: %w", l.function.name, ErrStuck)
	}
	if err == nil {
		stats.end(ic, l.clock.Now(), nil)
		return nil
	}
	stats.end(ic, l.clock.Now(), err)
	stats.fail(l.clock.Now(), err)
	logFailure(log, err)
	return err
}
