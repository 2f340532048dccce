package workers

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lazuli-storage/lazuli/internal/test/testlog"
	"github.com/lazuli-storage/lazuli/workers/internal/calls"
	"github.com/lazuli-storage/lazuli/workers/internal/locks"
)

// timerBench is a bubble whose time begins at 2000-01-01 00:00:00 UTC, a Saturday.
type timerBench struct {
	*testing.T
	host *fakeHost
	log  *testlog.Buffer
	mu   sync.Mutex
	runs []string // "hh:mm:ss" or "hh:mm:ss late"

	hostID string // of the apps that are started
	clock  Clock  // nil is the bubble's
}

func timerBubble(t *testing.T, test func(b *timerBench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		test(&timerBench{T: t, host: newFakeHost(), log: &testlog.Buffer{}, hostID: "lazuli"})
	})
}

func (b *timerBench) record(info TimerInfo) {
	b.mu.Lock()
	defer b.mu.Unlock()
	text := time.Now().UTC().Format(time.TimeOnly)
	if info.IsPastDue {
		text += " late"
	}
	b.runs = append(b.runs, text)
}

// app starts an instance with a timer called tick.
func (b *timerBench) app(schedule string, h TimerHandler, options ...TimerOption) *App {
	b.Helper()
	app := New(Config{Storage: &Storage{}, HostID: b.hostID, Logger: slog.New(slog.NewTextHandler(b.log, nil)),
		StuckTimeout: time.Minute, Clock: b.clock})
	app.openHost = func(*Storage) (locks.Store, error) { return b.host, nil }
	if h == nil {
		h = func(_ context.Context, info TimerInfo) error { b.record(info); return nil }
	}
	app.Timer("tick", h, append([]TimerOption{WithSchedule(schedule)}, options...)...)
	if err := app.Start(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = app.Stop(context.Background()) })
	return app
}

func (b *timerBench) stop(app *App) {
	b.Helper()
	if err := app.Stop(context.Background()); err != nil {
		b.Error(err)
	}
}

func (b *timerBench) until(clock string) {
	b.Helper()
	at, err := time.Parse(time.DateTime, "2000-01-01 "+clock)
	if err != nil {
		b.Fatal(err)
	}
	time.Sleep(time.Until(at))
	synctest.Wait()
}

func (b *timerBench) want(runs ...string) {
	b.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if !slices.Equal(b.runs, runs) {
		b.Errorf("runs %q, want %q\nlog:\n%s", b.runs, runs, b.log)
	}
}

func TestTimerRunsOnSchedule(t *testing.T) {
	t.Parallel()
	timerBubble(t, func(b *timerBench) {
		app := b.app("0 */20 * * * *", nil)
		b.until("01:05:00")
		b.want("00:20:00", "00:40:00", "01:00:00")
		if s := app.Stats()[0]; s.Succeeded != 3 || s.Trigger != "timerTrigger" {
			b.Errorf("stats %+v", s)
		}
	})
}

// shiftedClock is the clock of the bubble, set forward by a while.
type shiftedClock struct {
	Clock
	ahead atomic.Int64
}

func (c *shiftedClock) Now() time.Time { return c.Clock.Now().Add(time.Duration(c.ahead.Load())) }

// A clock that was a day ahead and is set right, while the timer waits or between two processes, does not hold the
// timer back for a day.
func TestTimerAfterAClockThatWasAhead(t *testing.T) {
	t.Parallel()
	timerBubble(t, func(b *timerBench) {
		clock := &shiftedClock{Clock: calls.SystemClock{}}
		b.clock = clock
		clock.ahead.Store(int64(24 * time.Hour))
		app := b.app("0 */20 * * * *", nil)
		b.until("00:25:00")
		clock.ahead.Store(0)
		b.until("01:05:00")
		b.want("00:20:00", "00:40:00", "01:00:00")
		clock.ahead.Store(int64(24 * time.Hour))
		b.until("01:25:00")
		b.stop(app)
		clock.ahead.Store(0)
		b.app("0 */20 * * * *", nil)
		b.until("01:45:00")
		b.want("00:20:00", "00:40:00", "01:00:00", "01:20:00", "01:40:00")
	})
}

func TestTimerStatus(t *testing.T) {
	t.Parallel()
	timerBubble(t, func(b *timerBench) {
		var infos []TimerInfo
		b.app("0 0 * * * *", func(ctx context.Context, info TimerInfo) error {
			infos = append(infos, info)
			ic, _ := FromContext(ctx)
			if ic == nil || ic.FunctionName != "tick" || ic.InvocationID == "" {
				b.Errorf("invocation %+v", ic)
			}
			return nil
		})
		b.until("02:30:00")
		if len(infos) != 2 || infos[1].ScheduleStatus.Last != "2000-01-01T01:00:00Z" ||
			infos[1].ScheduleStatus.Next != "2000-01-01T02:00:00Z" {
			b.Errorf("handler got %+v", infos)
		}
		want :=
			`{"Last":"2000-01-01T02:00:00Z","Next":"2000-01-01T03:00:00Z","LastUpdated":"2000-01-01T02:00:00Z","Expression":"0 0 * * * *"}`
		if got := string(b.host.records["timers/lazuli/tick/status"]); got != want {
			b.Errorf("record %s, want %s", got, want)
		}
	})
}

// Of two instances one keeps the timer. When it stops the other one takes over at once or after its next try; when it
// dies, after the lock has run out.
func TestTimerHasOneKeeper(t *testing.T) {
	t.Parallel()
	timerBubble(t, func(b *timerBench) {
		first := b.app("*/10 * * * * *", nil)
		b.until("00:00:01")
		b.app("*/10 * * * * *", nil)
		b.until("00:00:35")
		b.want("00:00:10", "00:00:20", "00:00:30")
		b.stop(first)
		b.until("00:01:01")
		b.want("00:00:10", "00:00:20", "00:00:30", "00:00:40", "00:00:50", "00:01:00")
	})
}

// Runs that were missed while no instance was up happen once, late.
func TestTimerPastDue(t *testing.T) {
	t.Parallel()
	timerBubble(t, func(b *timerBench) {
		b.stop(b.app("0 0 * * * *", nil)) // Never ran: only knows when it would have.
		b.until("00:30:00")
		app := b.app("0 0 * * * *", nil)
		b.until("01:30:00")
		b.stop(app)
		b.until("05:15:00")
		app = b.app("0 0 * * * *", nil)
		b.until("06:30:00")
		b.stop(app)
		b.want("01:00:00", "05:15:00 late", "06:00:00")
		// With another schedule nothing is late, and neither is without monitoring.
		b.until("08:05:00")
		b.stop(b.app("0 50 * * * *", nil))
		b.until("09:55:00")
		b.stop(b.app("0 50 * * * *", nil, WithMonitor(false)))
		b.want("01:00:00", "05:15:00 late", "06:00:00")
	})
}

func TestTimerOfSecondsIsNotMonitored(t *testing.T) {
	t.Parallel()
	timerBubble(t, func(b *timerBench) {
		app := b.app("*/30 * * * * *", nil)
		b.until("00:00:31")
		b.stop(app)
		if len(b.host.records) != 0 {
			b.Errorf("records %v", b.host.records)
		}
		b.until("00:03:10")
		b.app("*/30 * * * * *", nil)
		b.until("00:03:31")
		b.want("00:00:30", "00:03:30")
	})
}

// A schedule for a day that no month has is no error, as in Azure Functions: it never comes.
func TestTimerThatNeverComes(t *testing.T) {
	t.Parallel()
	timerBubble(t, func(b *timerBench) {
		app := b.app("0 0 0 31 2 *", nil)
		b.until("23:00:00")
		b.want()
		b.stop(app)
		app = b.app("0 0 0 31 2 *", nil, WithRunOnStartup(true))
		synctest.Wait()
		b.stop(app)
		b.want("23:00:00")
	})
}

func TestTimerRunOnStartup(t *testing.T) {
	t.Parallel()
	timerBubble(t, func(b *timerBench) {
		b.app("0 0 * * * *", nil, WithRunOnStartup(true))
		b.until("01:01:00")
		b.want("00:00:00", "01:00:00")
	})
}

// A run longer than the schedule's steps delays the next one, and is never joined by another.
func TestTimerRunsDoNotOverlap(t *testing.T) {
	t.Parallel()
	timerBubble(t, func(b *timerBench) {
		b.app("0 * * * * *", func(ctx context.Context, info TimerInfo) error {
			b.record(info)
			select {
			case <-time.After(150 * time.Second):
			case <-ctx.Done():
			}
			return ctx.Err()
		})
		b.until("00:10:00")
		b.want("00:01:00", "00:04:00", "00:07:00", "00:10:00")
	})
}

func TestTimerFailureWaitsForNextTime(t *testing.T) {
	t.Parallel()
	timerBubble(t, func(b *timerBench) {
		app := b.app("0 0 * * * *", func(_ context.Context, info TimerInfo) error {
			b.record(info)
			if len(b.runs) == 1 {
				panic("first")
			}
			return errBoom
		})
		b.until("02:30:00")
		b.want("01:00:00", "02:00:00")
		if s := app.Stats()[0]; s.Failed != 2 || !errors.Is(s.LastError.Err, errBoom) ||
			!strings.Contains(b.log.String(), "TestTimerFailureWaitsForNextTime") {
			b.Errorf("stats %+v, log:\n%s", s, b.log)
		}
	})
}

// A keeper that loses its lock cancels its handler; the new keeper repeats the run, since it was not completed.
func TestTimerLockLost(t *testing.T) {
	t.Parallel()
	timerBubble(t, func(b *timerBench) {
		var cause error
		b.app("0 0 * * * *", func(ctx context.Context, info TimerInfo) error {
			b.record(info)
			if cause == nil {
				<-ctx.Done()
				cause = context.Cause(ctx)
			}
			return ctx.Err()
		})
		b.until("01:00:10")
		b.host.steal(10 * time.Minute)
		b.until("01:30:00")
		if !errors.Is(cause, ErrLeaseLost) {
			b.Errorf("cause %v, want %v", cause, ErrLeaseLost)
		}
		b.want("01:00:00", "01:10:10 late")
	})
}

// When storage is away for longer than the lock lasts, the keeper stops by its own clock, and goes on when it is back.
func TestTimerOutage(t *testing.T) {
	t.Parallel()
	timerBubble(t, func(b *timerBench) {
		b.app("0 0 * * * *", nil)
		b.until("00:59:58")
		b.host.setDown(true)
		b.until("01:30:02")
		b.host.setDown(false)
		b.until("02:00:01")
		// The lock outlived the outage's beginning: the first run took place, but was not recorded, and is repeated.
		b.want("01:00:00", "01:30:02 late", "02:00:00")
		if n := strings.Count(b.log.String(), "acquiring the lock failed"); n != 1 {
			b.Errorf("the outage is logged %d times:\n%s", n, b.log)
		}
	})
}

func TestTimerStopWaitsAndCutsOff(t *testing.T) {
	t.Parallel()
	timerBubble(t, func(b *timerBench) {
		var cause error
		app := b.app("0 0 * * * *", func(ctx context.Context, info TimerInfo) error {
			b.record(info)
			select {
			case <-time.After(10 * time.Minute):
			case <-ctx.Done():
				cause = context.Cause(ctx)
			}
			return nil
		})
		b.until("01:00:01")
		b.stop(app) // Waits for the end of the run.
		if now := time.Now().Format(time.TimeOnly); now != "01:10:00" || cause != nil {
			b.Errorf("stopped at %s, cause %v", now, cause)
		}
		app = b.app("0 0 * * * *", func(ctx context.Context,
			info TimerInfo) error {
			<-ctx.Done()
			cause = context.Cause(ctx)
			return nil
		})
		b.until("02:00:01")
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := app.Stop(ctx); err != nil {
			b.Error(err)
		}
		if !errors.Is(cause, ErrStopping) {
			b.Errorf("cause %v", cause)
		}
	})
}

func TestTimerStuckHandler(t *testing.T) {
	t.Parallel()
	timerBubble(t, func(b *timerBench) {
		release := make(chan struct{})
		defer close(release)
		app := b.app("0 0 * * * *", func(context.Context, TimerInfo) error { <-release; return nil },
			WithTimeout(time.Minute))
		b.until("01:10:00")
		if err := app.Stop(context.Background()); !errors.Is(err, ErrStuck) {
			b.Errorf("Stop returned %v", err)
		}
	})
}

func TestTimerRegistration(t *testing.T) {
	t.Parallel()
	app := New(Config{Storage: &Storage{}})
	app.Timer("tick", func(context.Context, TimerInfo) error { return nil }, WithSchedule("every day"))
	if err := app.Start(t.Context()); err == nil || !strings.Contains(err.Error(), `"tick"`) ||
		!strings.Contains(err.Error(), "2 fields") {
		t.Errorf("Start returned %v", err)
	}
	app = New(Config{Storage: &Storage{}})
	app.Timer("tick", func(context.Context, TimerInfo) error { return nil }, WithSchedule("00:01:00"))
	if err := app.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "no blob endpoint") {
		t.Errorf("Start returned %v", err)
	}
	app = New(Config{Storage: &Storage{}, LockPeriod: time.Second})
	app.Timer("tick", func(context.Context, TimerInfo) error { return nil }, WithSchedule("00:01:00"))
	if err := app.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "LockPeriod") {
		t.Errorf("Start returned %v", err)
	}
}
