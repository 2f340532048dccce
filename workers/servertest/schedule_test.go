package servertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/sdk/schedulerow"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/lazulitest"
	"github.com/lazuli-storage/lazuli/workers"
)

// scheduled is an account with the role of schedules, and what its messages say: the times after the beginning.
type scheduled struct {
	*lazulitest.Account
	clock *lazulitest.Clock
	began time.Time
	app   *workers.App

	mu  sync.Mutex
	got []string
}

type occurrence struct {
	Schedule      string
	ScheduledTime time.Time
	Report        string
}

func newScheduled(t *testing.T) *scheduled {
	clock := lazulitest.NewClock()
	s := &scheduled{Account: lazulitest.Start(t, lazulitest.WithFakeClock(clock)).Account(t), clock: clock}
	// The tests count in minutes from a full hour.
	clock.Advance(clock.Now().Truncate(time.Hour).Add(time.Hour).Sub(clock.Now()))
	s.began = clock.Now()
	s.app = s.newApp()
	return s
}

// newScheduler returns an app with the role alone.
func (s *scheduled) newScheduler() *workers.App {
	app := workers.New(workers.Config{Storage: s.Storage, Clock: s.clock, Logger: quiet, HostID: "scheduled"})
	app.Schedules()
	return app
}

func (s *scheduled) newApp() *workers.App {
	app := s.newScheduler()
	workers.Queue(app, "reports", func(_ context.Context, m *workers.Message[occurrence]) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.got = append(s.got, fmt.Sprintf("%s %v %s", m.Body.Schedule, m.Body.ScheduledTime.Sub(s.began), m.Body.Report))
		return nil
	}, workers.WithConcurrency(1))
	return app
}

// want compares what came since the last call.
func (s *scheduled) want(t *testing.T, want ...string) {
	t.Helper()
	s.Drain()
	s.mu.Lock()
	defer s.mu.Unlock()
	if diff := cmp.Diff(want, s.got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	s.got = nil
}

func (s *scheduled) create(t *testing.T, schedule workers.Schedule) {
	t.Helper()
	schedule.Queue = "reports"
	check.OK(t, s.CreateSchedule(t.Context(), schedule))
}

// Schedules are created, paused, resumed, changed and removed while the app runs.
func TestSchedulesChangeWhileTheyRun(t *testing.T) {
	t.Parallel()
	s := newScheduled(t)
	s.Run(s.app)
	ctx := t.Context()
	daily := workers.Schedule{Name: "acme", Expression: "0 */10 * * * *", Body: map[string]string{"report": "sales"}}
	s.create(t, daily)
	s.create(t, workers.Schedule{Name: "zoo", Expression: "00:07:00"})
	again := workers.Schedule{Name: "zoo", Expression: "00:07:00", Queue: "reports"}
	if err := s.CreateSchedule(ctx, again); !errors.Is(err, workers.ErrScheduleExists) {
		t.Errorf("created twice: %v", err)
	}
	minute := func(n int) {
		for range n {
			s.clock.Advance(time.Minute)
			s.Drain()
		}
	}
	s.Drain()
	minute(10)
	s.want(t, "zoo 7m0s ", "acme 10m0s sales")
	check.OK(t, s.PauseSchedule(ctx, "acme"))
	check.OK(t, s.PauseSchedule(ctx, "acme"))
	minute(15)
	s.want(t, "zoo 14m0s ", "zoo 21m0s ")
	check.OK(t, s.ResumeSchedule(ctx, "acme"))
	check.OK(t, s.ResumeSchedule(ctx, "acme"))
	check.OK(t, s.RemoveSchedule(ctx, "zoo"))
	minute(5) // What came due in the pause is not missed.
	s.want(t, "acme 30m0s sales")
	daily.Queue = "reports"
	daily.Body = map[string]string{"report": "stock"}
	check.OK(t, s.UpsertSchedule(ctx, daily)) // keeps its next time
	minute(10)
	s.want(t, "acme 40m0s stock")
	daily.Expression = "0 */15 * * * *"
	check.OK(t, s.UpsertSchedule(ctx, daily))
	check.OK(t, s.UpsertSchedule(ctx, workers.Schedule{Name: "new", Expression: "0 0 0 1 1 *", Queue: "reports"}))
	minute(10)
	s.want(t, "acme 45m0s stock")

	list, err := s.Schedules(ctx)
	check.OK(t, err)
	var names []string
	for _, x := range list {
		names = append(names, x.Name)
	}
	if !slices.Equal(names, []string{"acme", "new"}) || list[0].Runs != 4 || list[0].Last.Sub(s.began) != 45*time.Minute ||
		list[0].Next.Sub(s.began) != time.Hour || list[0].Created != s.began || !list[1].Last.IsZero() {
		t.Errorf("%+v", list)
	}
	one, err := s.GetSchedule(ctx, "acme")
	check.OK(t, err)
	if diff := cmp.Diff(list[0], one); diff != "" {
		t.Error(diff)
	}
	for _, err := range []error{s.RemoveSchedule(ctx, "zoo"), s.PauseSchedule(ctx, "zoo"), s.ResumeSchedule(ctx, "it's/"),
		s.RemoveSchedule(ctx, "a/b")} {
		if !errors.Is(err, workers.ErrNoSchedule) {
			t.Error(err)
		}
	}
}

// What was missed while no app ran comes as the policy says.
func TestSchedulesCatchUp(t *testing.T) {
	t.Parallel()
	s := newScheduled(t)
	s.create(t, workers.Schedule{Name: "all", Expression: "0 */10 * * * *", CatchUp: workers.CatchUpAll, MaxCatchUp: 2})
	s.create(t, workers.Schedule{Name: "once", Expression: "0 */10 * * * *"})
	s.create(t, workers.Schedule{Name: "paused", Expression: "0 */10 * * * *", Paused: true})
	s.create(t, workers.Schedule{Name: "skip", Expression: "0 */10 * * * *", CatchUp: workers.CatchUpSkip})
	s.clock.Advance(35 * time.Minute)
	s.Run(s.app)
	s.want(t, "all 20m0s ", "all 30m0s ", "once 30m0s ")
	s.clock.Advance(5 * time.Minute)
	s.want(t, "all 40m0s ", "once 40m0s ", "skip 40m0s ")
}

// A crash at each step, which an error stands for here, with two instances: each occurrence has one
// message.
func TestScheduleCrashesAtEveryStep(t *testing.T) {
	for _, point := range fault.PointsOf("schedules") {
		t.Run(point, func(t *testing.T) {
			s := newScheduled(t)
			s.create(t, workers.Schedule{Name: "s", Expression: "0 * * * * *", CatchUp: workers.CatchUpAll})
			plan := fault.NewPlan(fault.Rule{Point: fault.Name(point), On: 2, Do: fault.Fail(errors.New("a crash"))})
			stop := sync.OnceFunc(fault.Activate(plan))
			defer stop()
			s.Run(s.newScheduler())
			s.Run(s.app) // It alone receives the messages, one after the other.
			// The steps are shorter than the lease of the lock. An instance that is slow loses it all the same, and the other
			// one catches up: after one step there can be several messages.
			var got, want []string
			check.Eventually(t, func() bool {
				s.clock.Advance(5 * time.Second)
				s.Drain()
				s.mu.Lock()
				defer s.mu.Unlock()
				got = slices.Clone(s.got)
				return len(got) >= 4
			}, "four occurrences")
			for i := range got {
				want = append(want, fmt.Sprintf("s %v ", time.Duration(i+1)*time.Minute))
			}
			if plan.Hits(fault.Name(point)) < 2 {
				t.Fatalf("the point was passed %d times", plan.Hits(fault.Name(point)))
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestScheduleMistakes(t *testing.T) {
	t.Parallel()
	s := newScheduled(t)
	good := workers.Schedule{Name: "s", Expression: "0 0 6 * * *", Queue: "reports"}
	for says, change := range map[string]func(*workers.Schedule){
		"the name is not":                func(x *workers.Schedule) { x.Name = "a/b" },
		`schedule "0 6"`:                 func(x *workers.Schedule) { x.Expression = "0 6" },
		"never comes":                    func(x *workers.Schedule) { x.Expression = "0 0 0 30 2 *" },
		`time zone "Mars" is not known`:  func(x *workers.Schedule) { x.TimeZone = "Mars" },
		`time zone "Local" is not known`: func(x *workers.Schedule) { x.TimeZone = "Local" },
		"queue name":                     func(x *workers.Schedule) { x.Queue = "Reports" },
		"unsupported type":               func(x *workers.Schedule) { x.Body = func() {} },
		"at most 46080 are allowed":      func(x *workers.Schedule) { x.Body = strings.Repeat("x", 45<<10+1) },
		"message encoding":               func(x *workers.Schedule) { x.Encoding = "gzip" },
		`policy "never" is not "once"`:   func(x *workers.Schedule) { x.CatchUp = "never" },
		"is not within 1 to 1000":        func(x *workers.Schedule) { x.MaxCatchUp = 1001 },
	} {
		x := good
		change(&x)
		for _, err := range []error{s.CreateSchedule(t.Context(), x), s.UpsertSchedule(t.Context(), x)} {
			if err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%s: %v", says, err)
			}
		}
	}
	if list, err := s.Schedules(t.Context()); len(list) > 0 || err != nil {
		t.Errorf("%v, %v", list, err)
	}
	if err := (&workers.Storage{}).CreateSchedule(t.Context(), good); err == nil {
		t.Error("created without tables")
	}
	app := workers.New(workers.Config{Storage: &workers.Storage{}, Logger: quiet})
	app.Schedules()
	if err := app.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "no queue endpoint") {
		t.Error(err)
	}
}

// A schedule that cannot go on, as its row was damaged, does not keep the others.
func TestDamagedSchedule(t *testing.T) {
	t.Parallel()
	s := newScheduled(t)
	s.create(t, workers.Schedule{Name: "a", Expression: "0 */10 * * * *"})
	s.create(t, workers.Schedule{Name: "b", Expression: "0 */10 * * * *"})
	_, err := s.Tables.NewClient(schedulerow.Table).UpdateEntity(t.Context(),
		[]byte(`{"PartitionKey":"schedules","RowKey":"a","Expression":"nonsense"}`), nil)
	check.OK(t, err)
	s.Run(s.app)
	s.clock.Advance(10 * time.Minute)
	s.want(t, "b 10m0s ")
	if e := s.app.Stats()[0].LastError; e == nil || !strings.Contains(e.Err.Error(), "nonsense") {
		t.Errorf("last error %v", e)
	}
}
