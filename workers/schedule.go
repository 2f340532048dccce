package workers

import (
	"context"
	"fmt"
	"time"

	"github.com/lazuli-storage/lazuli/internal/sdk/ptr"
	"github.com/lazuli-storage/lazuli/internal/sdk/schedulerow"
	"github.com/lazuli-storage/lazuli/workers/internal/timertrigger"
	"github.com/lazuli-storage/lazuli/workers/internal/trigger"
)

// CatchUp says what a schedule does about occurrences that were missed: that came while no instance with
// [App.Schedules] was running.
type CatchUp string

const (
	// CatchUpOnce puts one message for all that were missed, at the time of the last one. It is the default.
	CatchUpOnce CatchUp = "once"
	// CatchUpSkip puts none for occurrences that are more than a minute late.
	CatchUpSkip CatchUp = "skip"
	// CatchUpAll puts a message for each, at most Schedule.MaxCatchUp: the last ones.
	CatchUpAll CatchUp = "all"
)

// Schedule puts a message into a queue at certain times. It is a row of a table, which can be created, paused, resumed
// and removed while apps run; an app with [App.Schedules] puts the messages. A schedule that belongs to the code is
// [App.Timer].
type Schedule struct {
	// Name is 1 to 200 letters, digits, '-', '_', '.' and ':'.
	Name string
	// Expression is as in WithSchedule: NCRONTAB of six fields, or an interval "hh:mm:ss".
	Expression string
	// TimeZone is a name of the IANA database, such as "Europe/Berlin"; empty is UTC. See WithTimeZone.
	TimeZone string
	// Queue is the queue of the messages. It is created if it does not exist.
	Queue string
	// Body is the body of the messages, as in Storage.Enqueue, of at most 45 KiB; nil is {}. A schedule that was read has
	// the bytes.
	// If it is a JSON object without these members, each message has "schedule", the name, and "scheduledTime", the time
	// of the occurrence in RFC 3339.
	Body any
	// Encoding is the encoding of the messages; empty is Base64.
	Encoding Encoding
	// CatchUp is what happens to missed occurrences; empty is CatchUpOnce. Those of a pause are not missed.
	CatchUp CatchUp
	// MaxCatchUp is the largest number of messages for missed occurrences with CatchUpAll, 1 to 1,000; 0 is 100.
	MaxCatchUp int
	// Paused schedules put no messages until they are resumed.
	Paused bool

	// Next is the next occurrence; zero if none comes, as while the schedule is paused.
	Next time.Time
	// Last is the last occurrence for which a message was put; zero before the first. Runs is their number.
	Last    time.Time
	Runs    int64
	Created time.Time
}

// Failures of schedules, for errors.Is.
var (
	// ErrScheduleExists means that a schedule of that name exists. Nothing was changed.
	ErrScheduleExists = schedulerow.ErrExists
	// ErrNoSchedule means that no schedule has that name. Nothing was changed.
	ErrNoSchedule = schedulerow.ErrNotFound
)

// row checks a schedule and makes its row, without times.
func (s Schedule) row() (*schedulerow.Row, error) {
	r := &schedulerow.Row{Name: s.Name, Expression: s.Expression, TimeZone: s.TimeZone, Queue: s.Queue,
		Encoding: string(s.Encoding), CatchUp: string(s.CatchUp), MaxCatchUp: int64(s.MaxCatchUp), Paused: s.Paused}
	if s.Body == nil {
		s.Body = "{}"
	}
	var err error
	if r.Body, err = encoded(s.Body); err != nil {
		return nil, fmt.Errorf("schedule %q: %w", s.Name, err)
	}
	return r, r.Complete()
}

// scheduleOf returns what a row says.
func scheduleOf(r *schedulerow.Row) Schedule {
	return Schedule{Name: r.Name, Expression: r.Expression, TimeZone: r.TimeZone, Queue: r.Queue, Body: r.Body,
		Encoding: Encoding(r.Encoding), CatchUp: CatchUp(r.CatchUp), MaxCatchUp: int(r.MaxCatchUp), Paused: r.Paused,
		Next: ptr.Value(r.Next), Last: ptr.Value(r.Last), Runs: r.Runs, Created: r.Created}
}

// CreateSchedule stores a new schedule. Its first occurrence is the first one after the service's time of the call. An
// app with [App.Schedules] sees it within five seconds. The error is [ErrScheduleExists] if there is one of that name.
func (s *Storage) CreateSchedule(ctx context.Context, schedule Schedule) error {
	return s.withSchedules(func(store schedulerow.Store) error {
		row, err := schedule.row()
		if err != nil {
			return err
		}
		return store.Create(ctx, row)
	})
}

// UpsertSchedule stores a schedule, or changes the one of that name: for schedules that a program states whenever it
// starts. One that exists stays paused or not as it is, and keeps its next occurrence unless the expression or the time
// zone is another one.
func (s *Storage) UpsertSchedule(ctx context.Context, schedule Schedule) error {
	return s.withSchedules(func(store schedulerow.Store) error {
		row, err := schedule.row()
		if err != nil {
			return err
		}
		return store.Upsert(ctx, row)
	})
}

// PauseSchedule lets a schedule put no messages until it is resumed. One that is paused stays so. The error is
// [ErrNoSchedule] if no schedule has that name.
func (s *Storage) PauseSchedule(ctx context.Context, name string) error {
	return s.withSchedules(func(store schedulerow.Store) error { return store.Pause(ctx, name) })
}

// ResumeSchedule ends a pause: the next occurrence is the first one from now on. One that is not paused stays as it is.
// The error is [ErrNoSchedule] if no schedule has that name.
func (s *Storage) ResumeSchedule(ctx context.Context, name string) error {
	return s.withSchedules(func(store schedulerow.Store) error { return store.Resume(ctx, name) })
}

// RemoveSchedule deletes a schedule. Messages that it has put stay in their queue. The error is [ErrNoSchedule] if no
// schedule has that name.
func (s *Storage) RemoveSchedule(ctx context.Context, name string) error {
	return s.withSchedules(func(store schedulerow.Store) error { return store.Remove(ctx, name) })
}

// GetSchedule returns the schedule of a name, or ErrNoSchedule.
func (s *Storage) GetSchedule(ctx context.Context, name string) (got Schedule, err error) {
	err = s.withSchedules(func(store schedulerow.Store) error {
		row, err := store.Get(ctx, name)
		got = scheduleOf(&row)
		return err
	})
	return got, err
}

// Schedules returns all schedules, by name.
func (s *Storage) Schedules(ctx context.Context) (list []Schedule, err error) {
	err = s.withSchedules(func(store schedulerow.Store) error {
		rows, err := store.List(ctx)
		for i := range rows {
			list = append(list, scheduleOf(&rows[i]))
		}
		return err
	})
	return list, err
}

func (s *Storage) withSchedules(do func(schedulerow.Store) error) error {
	store, err := s.schedules()
	if err == nil {
		err = do(store)
	}
	if err != nil {
		return fmt.Errorf("workers: %w", err)
	}
	return nil
}

func (s *Storage) schedules() (schedulerow.Store, error) {
	return timertrigger.OpenSchedules(s.Tables)
}

// Schedules registers the role that puts the messages of all schedules of the account of a connection; see [Schedule].
// Any number of instances and apps may have it: of those with one HostID one works at a time, by a blob lease as for
// [App.Timer], and another one takes over within four thirds of Config.LockPeriod. Its function is called
// "lazuli-schedules".
//
// Each occurrence has one message, also when instances die at any step or run at the same time: the message is put
// hidden, then the schedule's row is written with the message's ID, with the ETag as condition, and then the message is
// shown. A message that no row names stays hidden until it expires after seven days; it counts in the length of the
// queue. The handler of the message is called at least once, as of every message.
func (a *App) Schedules(options ...CommonOption) *Function {
	f := register(a, "lazuli-schedules", trigger.ScheduleTrigger, options)
	f.listen = func(a *App, f *Function, storage *Storage) (trigger.Listener, error) {
		return timertrigger.NewSchedules(a.environment(f, storage), f.core)
	}
	return f
}
