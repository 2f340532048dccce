package timertrigger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/sdk/ptr"
	"github.com/lazuli-storage/lazuli/internal/sdk/schedulerow"
	"github.com/lazuli-storage/lazuli/internal/sdk/sdkerr"
	"github.com/lazuli-storage/lazuli/workers/internal/calls"
	"github.com/lazuli-storage/lazuli/workers/internal/locks"
	"github.com/lazuli-storage/lazuli/workers/internal/queues"
	"github.com/lazuli-storage/lazuli/workers/internal/trigger"
)

// The moments around the effects of an occurrence.
var (
	pointScheduleRead     = fault.Declare("schedules/after-read")
	pointSchedulePut      = fault.Declare("schedules/after-put")
	pointScheduleRecorded = fault.Declare("schedules/after-record")
	pointScheduleShown    = fault.Declare("schedules/after-show")
	pointScheduleCleared  = fault.Declare("schedules/after-clear")
)

const (
	// scheduleEvery is the interval at which the due schedules are read, and so the time after which a new one is seen.
	scheduleEvery = 5 * time.Second
	// A message is put hidden for all but the last second of its life: one that no row names is never received.
	scheduledLife   = 7 * 24 * time.Hour
	scheduledHidden = scheduledLife - time.Second
)

// scheduler puts the messages of schedules.
type scheduler struct {
	env      *trigger.Environment
	function *trigger.Function
	rows     schedulerow.Store
	lock     *locks.Singleton
	clock    calls.Clock
	log      *slog.Logger
	woken    calls.Nudge
	waits    atomic.Pointer[time.Time] // end of the current wait; nil if it does not wait
}

// NewSchedules makes the listener that puts the messages of the account's schedules.
func NewSchedules(env *trigger.Environment, f *trigger.Function) (*scheduler, error) {
	if env.Queues == nil {
		return nil, errors.New("schedules need queues, and the connection string has no queue endpoint")
	}
	rows, err := OpenSchedules(env.Tables)
	if err != nil {
		return nil, err
	}
	host, err := env.OpenHost()
	if err != nil {
		return nil, fmt.Errorf("schedules need blobs for their lock: %w", err)
	}
	return &scheduler{env: env, function: f, rows: rows, clock: env.Clock, log: env.Log, woken: calls.NewNudge(),
		lock: env.Singleton(host, f.Name)}, nil
}

// OpenSchedules returns the rows of an account's schedules.
func OpenSchedules(tables *aztables.ServiceClient) (schedulerow.Store, error) {
	if tables == nil {
		return schedulerow.Store{}, errors.New("schedules need tables, and the connection string has no table endpoint")
	}
	return schedulerow.Open(tables)
}

// Wake implements trigger.Listener.
func (l *scheduler) Wake() { l.woken.Give() }

// Listen implements trigger.Listener.
func (l *scheduler) Listen(soft, hard context.Context) error {
	l.lock.Lead(soft, hard, l.keep)
	return nil
}

// keep works while this instance has the lock.
func (l *scheduler) keep(soft, hard context.Context) {
	defer l.waits.Store(nil)
	failing := ""
	for l.function.Gate.Pass(soft) {
		next, err := l.round(soft, hard)
		switch {
		case soft.Err() != nil:
			return
		case err != nil && sdkerr.Text(err) != failing:
			failing = sdkerr.Text(err)
			l.function.Stats.Fail(l.clock.Now(), err)
			l.log.Error("the schedules cannot be read; retrying", "err", sdkerr.Short(err))
		case err == nil:
			failing = ""
		}
		timer := l.clock.NewTimer(next.Sub(l.clock.Now()))
		l.waits.Store(&next) // After the timer was created: a test may advance the clock now.
		select {
		case <-timer.C():
		case <-l.woken:
		case <-l.function.Gate.Changed():
		case <-soft.Done():
		}
		timer.Stop()
		l.waits.Store(nil)
	}
}

// Idle reports whether no schedule is due.
func (l *scheduler) Idle(context.Context) (bool, error) {
	if l.lock.Elsewhere.Load() {
		return true, nil
	}
	until := l.waits.Load()
	return until != nil && until.After(l.clock.Now()), nil
}

// round puts the messages that are due, and returns when the next round is. It reads the schedules that come before
// then, and those of whose last message it is not known whether it is shown.
func (l *scheduler) round(soft, hard context.Context) (next time.Time, err error) {
	now := l.clock.Now()
	next = now.Add(scheduleEvery)
	due, err := l.rows.Due(hard, next)
	if err != nil {
		return next, err
	}
	for i := range due {
		row := &due[i]
		if soft.Err() != nil {
			return next, nil
		}
		err := fault.Point(pointScheduleRead)
		if err == nil {
			err = calls.Contain(func() error { return l.advance(hard, row, now) })
		}
		if errors.Is(err, schedulerow.ErrChanged) {
			next = now.Add(queues.MinPollingInterval)
			continue
		}
		if err != nil {
			// The others go on: a queue that cannot be written, or a row that someone has damaged, is that of one schedule.
			l.function.Stats.Failed.Add(1)
			l.function.Stats.Fail(l.clock.Now(), err)
			l.log.Error("a schedule cannot go on; trying again", "schedule", row.Name, "err", sdkerr.Short(err))
			continue
		}
		if row.Next != nil && row.Next.Before(next) {
			next = *row.Next
		}
	}
	return next, nil
}

// advance puts the messages of one schedule that are due.
//
//  1. The message of an occurrence is put, hidden.
//  2. The row is written: the occurrence, the ID and receipt of its message, and the next occurrence. Of several
//     instances one succeeds; the others delete their messages.
//  3. The message is shown.
//  4. The row forgets the ID.
//
// After a crash before 2, the occurrence is still due, and the message is never seen. After one before 4, the next
// round shows the message by its receipt, which the service refuses if it was shown before. So one message is seen.
func (l *scheduler) advance(ctx context.Context, row *schedulerow.Row, now time.Time) error {
	// First what an earlier round or process left at step 3.
	if row.PendingID != "" {
		if err := l.show(ctx, row); err != nil {
			return err
		}
	}
	if row.Paused || row.Next == nil || row.Next.After(now) {
		return nil
	}
	times, err := row.Times()
	if err != nil {
		return err
	}
	due, after := schedulerow.Occurrences(times, *row.Next, now, row.CatchUp, int(row.MaxCatchUp))
	if len(due) != 1 || !due[0].Equal(*row.Next) {
		l.log.Warn("occurrences of a schedule were missed", "schedule", row.Name, "first", *row.Next, "catch_up",
			row.CatchUp, "messages", len(due))
	}
	// All that was missed is skipped by the policy; the row moves on without a message.
	if len(due) == 0 {
		row.SetNext(after)
		return l.rows.Put(ctx, row)
	}
	// After each message the row names the next one, so that a crash in the loop repeats none.
	for i, at := range due {
		next := after
		if i+1 < len(due) {
			next = due[i+1]
		}
		if err := l.fire(ctx, row, at, next); err != nil {
			return err
		}
	}
	return nil
}

// fire puts the message of one occurrence.
func (l *scheduler) fire(ctx context.Context, row *schedulerow.Row, at, next time.Time) error {
	queue := l.env.Queues.NewQueueClient(row.Queue)
	message, err := PutHidden(ctx, queue, row.Text(at), scheduledHidden, scheduledLife)
	if err != nil {
		return fmt.Errorf("put the message of %v: %w", at, err)
	}
	if err := fault.Point(pointSchedulePut); err != nil {
		return err
	}
	row.Last, row.Runs = &at, row.Runs+1
	row.PendingQueue, row.PendingID, row.PendingReceipt = row.Queue, message.ID, message.Receipt
	row.SetNext(next)
	if err := l.rows.Put(ctx, row); err != nil {
		if errors.Is(err, schedulerow.ErrChanged) {
			_ = queues.New(queue).Delete(ctx, message) // If it stays, it is never seen.
		}
		// After any other error the row may name the message, which must stay then.
		return err
	}
	if err := fault.Point(pointScheduleRecorded); err != nil {
		return err
	}
	l.function.Stats.Succeeded.Add(1)
	return l.show(ctx, row)
}

// show shows the message of the last occurrence, unless that has happened, and notes it in the row.
func (l *scheduler) show(ctx context.Context, row *schedulerow.Row) error {
	_, err := l.env.Queues.NewQueueClient(row.PendingQueue).UpdateMessage(ctx, row.PendingID, row.PendingReceipt,
		row.Text(ptr.Value(row.Last)), &azqueue.UpdateMessageOptions{VisibilityTimeout: to.Ptr(int32(0))})
	err = queues.Failure(err)
	// Not held: it was shown, and perhaps received and deleted. No queue: its messages went with it.
	if err != nil && !errors.Is(err, queues.ErrNotHeld) && !errors.Is(err, queues.ErrNoQueue) {
		return fmt.Errorf("show the message of %v: %w", ptr.Value(row.Last), err)
	}
	if err := fault.Point(pointScheduleShown); err != nil {
		return err
	}
	l.env.Wake(row.PendingQueue)
	row.PendingQueue, row.PendingID, row.PendingReceipt = "", "", ""
	if err := l.rows.Put(ctx, row); err != nil {
		return err
	}
	return fault.Point(pointScheduleCleared)
}

// PutHidden puts a message, and creates the queue if it does not exist.
func PutHidden(ctx context.Context, queue *azqueue.QueueClient, text string,
	hidden, life time.Duration) (queues.Message, error) {
	options := &azqueue.EnqueueMessageOptions{VisibilityTimeout: queues.Seconds(hidden), TimeToLive: to.Ptr(int32(-1))}
	if life > 0 {
		options.TimeToLive = queues.Seconds(life)
	}
	got, err := queue.EnqueueMessage(ctx, text, options)
	if errors.Is(queues.Failure(err), queues.ErrNoQueue) {
		if err := queues.New(queue).Create(ctx); err != nil {
			return queues.Message{}, err
		}
		got, err = queue.EnqueueMessage(ctx, text, options)
	}
	if err != nil || len(got.Messages) == 0 {
		return queues.Message{}, queues.Failure(err)
	}
	return queues.Message{ID: ptr.Value(got.Messages[0].MessageID), Receipt: ptr.Value(got.Messages[0].PopReceipt)}, nil
}
