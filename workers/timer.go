package workers

import (
	"context"
	"fmt"
	"time"

	"github.com/lazuli-storage/lazuli/internal/sdk/ncrontab"
	"github.com/lazuli-storage/lazuli/workers/bindings"
	"github.com/lazuli-storage/lazuli/workers/internal/timertrigger"
	"github.com/lazuli-storage/lazuli/workers/internal/trigger"
)

// TimerInfo is the argument of a timer handler.
type TimerInfo = bindings.TimerInfo

// TimerHandler handles one run of a timer.
type TimerHandler func(ctx context.Context, t TimerInfo) error

// WithSchedule sets when a timer runs, in UTC or in the zone of WithTimeZone: an NCRONTAB expression of six fields,
// "{second} {minute} {hour} {day} {month} {day of week}", or an interval "hh:mm:ss". Names of months and days may be
// cut short. https://learn.microsoft.com/azure/azure-functions/functions-bindings-timer#ncrontab-expressions
func WithSchedule(schedule string) TimerOption {
	return timerOption(func(s *trigger.Settings) { s.Schedule = schedule })
}

// WithTimeZone sets the time zone of a timer's schedule. When clocks are set forward, a time of day that is left out is
// moved by the time that is left out; when they are set back, a time of day that comes twice counts once. Schedules for
// all hours run every hour that passes. Default UTC.
func WithTimeZone(location *time.Location) TimerOption {
	return timerOption(func(s *trigger.Settings) { s.Location = location })
}

// WithRunOnStartup(true) makes a timer also run when an instance acquires its lock.
func WithRunOnStartup(run bool) TimerOption {
	return timerOption(func(s *trigger.Settings) { s.RunOnStartup = run })
}

// WithMaxRetryCount sets how often a failed run of a timer is retried, after the delays of WithRetry, before the next
// scheduled run; -1 means until it succeeds. Default 0. The count is in memory: if the process dies, the run counts as
// missed, and another instance starts over. As in Azure Functions, retry policies are for timers; messages have
// WithMaxDequeueCount.
func WithMaxRetryCount(n int) TimerOption {
	return timerOption(func(s *trigger.Settings) { s.MaxRetries = n })
}

// WithMonitor sets whether a timer records its runs in the storage account, so that a run that was missed while no
// instance was running happens later, once. Default: true if the runs are at least a minute apart.
func WithMonitor(monitor bool) TimerOption {
	return timerOption(func(s *trigger.Settings) { s.Monitor = &monitor })
}

// Timer registers a handler that runs at the times of WithSchedule.
//
// Of all instances of an app (Config.HostID) on one storage account, one runs the timer. It holds a blob lease; another
// instance takes over when it stops or dies. Runs do not overlap: the next run is the first time of the schedule after
// the end of the last run. A run that was missed because no instance was running happens once, late, with IsPastDue. A
// failed run is logged, and is retried only with WithMaxRetryCount. A run whose process died is repeated if the timer
// is monitored.
func (a *App) Timer(name string, h TimerHandler, options ...TimerOption) *Function {
	f := register(a, name, trigger.TimerTrigger, options)
	if h == nil {
		a.errs = append(a.errs, fmt.Errorf("workers: function %q: the handler is nil", name))
	}
	if s := &f.core.Settings; s.MaxRetries < -1 || s.Retry == nil {
		a.errs = append(a.errs, fmt.Errorf(
			"workers: function %q: the maximum retry count %d is less than -1, or the retry policy is nil", name, s.MaxRetries))
	}
	schedule, err := ncrontab.Parse(f.core.Settings.Schedule)
	if err != nil {
		a.errs = append(a.errs, fmt.Errorf("workers: function %q: %w", name, err))
	}
	// The zone is a part of the schedule: by it, times that a change of clocks leaves out are moved.
	if location := f.core.Settings.Location; location != nil {
		schedule = schedule.In(location)
	}
	f.listen = func(a *App, f *Function, storage *Storage) (trigger.Listener, error) {
		return timertrigger.New(a.environment(f, storage), f.core, schedule, h)
	}
	return f
}
