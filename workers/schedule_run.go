package workers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
	"github.com/google/uuid"

	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/sdk/ptr"
	"github.com/lazuli-storage/lazuli/internal/sdk/schedulerow"
	"github.com/lazuli-storage/lazuli/internal/sdk/sdkerr"
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

// scheduleTrigger is the trigger of the function of App.Schedules.
const scheduleTrigger = "scheduleTrigger"

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
	f := register(a, "lazuli-schedules", scheduleTrigger, options)
	f.listen = func(a *App, f *Function, storage *Storage) (listener, error) {
		if storage.Queues == nil {
			return nil, errors.New("schedules need queues, and the connection string has no queue endpoint")
		}
		rows, err := storage.schedules()
		if err != nil {
			return nil, err
		}
		host, err := a.openHost(storage)
		if err != nil {
			return nil, fmt.Errorf("schedules need blobs for their lock: %w", err)
		}
		log := a.config.Logger.With("function", f.name)
		return &scheduleListener{function: f, storage: storage, rows: rows, clock: a.config.Clock, log: log, app: a,
			woken: newNudge(),
			lock: &singleton{store: host, name: "locks/" + a.config.HostID + "/" + f.name, owner: uuid.NewString(),
				period: a.config.LockPeriod, retry: a.config.LockPeriod / 3, clock: a.config.Clock, log: log}}, nil
	}
	return f
}

// scheduleListener puts the messages of schedules.
type scheduleListener struct {
	function *Function
	app      *App
	storage  *Storage
	rows     schedulerow.Store
	lock     *singleton
	clock    Clock
	log      *slog.Logger
	woken    nudge
	waits    atomic.Pointer[time.Time] // end of the current wait; nil if it does not wait
}

func (l *scheduleListener) wake() { l.woken.give() }

func (l *scheduleListener) listen(soft, hard context.Context) error {
	l.lock.lead(soft, hard, l.keep)
	return nil
}

// keep works while this instance has the lock.
func (l *scheduleListener) keep(soft, hard context.Context) {
	defer l.waits.Store(nil)
	failing := ""
	for l.function.gate.pass(soft) {
		next, err := l.round(soft, hard)
		switch {
		case soft.Err() != nil:
			return
		case err != nil && sdkerr.Text(err) != failing:
			failing = sdkerr.Text(err)
			l.function.stats.fail(l.clock.Now(), err)
			l.log.Error("the schedules cannot be read; retrying", "err", sdkerr.Short(err))
		case err == nil:
			failing = ""
		}
		timer := l.clock.NewTimer(next.Sub(l.clock.Now()))
		l.waits.Store(&next) // After the timer was created: a test may advance the clock now.
		select {
		case <-timer.C():
		case <-l.woken:
		case <-l.function.gate.changed():
		case <-soft.Done():
		}
		timer.Stop()
		l.waits.Store(nil)
	}
}

func (l *scheduleListener) idle(context.Context) (bool, error) {
	if l.lock.elsewhere.Load() {
		return true, nil
	}
	until := l.waits.Load()
	return until != nil && until.After(l.clock.Now()), nil
}

// round puts the messages that are due, and returns when the next round is. It reads the schedules that come before
// then, and those of whose last message it is not known whether it is shown.
func (l *scheduleListener) round(soft, hard context.Context) (next time.Time, err error) {
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
			err = contain(func() error { return l.advance(hard, row, now) })
		}
		if errors.Is(err, schedulerow.ErrChanged) {
			next = now.Add(minPollingInterval)
			continue
		}
		if err != nil {
			// The others go on: a queue that cannot be written, or a row that someone has damaged, is that of one schedule.
			l.function.stats.failed.Add(1)
			l.function.stats.fail(l.clock.Now(), err)
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
func (l *scheduleListener) advance(ctx context.Context, row *schedulerow.Row, now time.Time) error {
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
func (l *scheduleListener) fire(ctx context.Context, row *schedulerow.Row, at, next time.Time) error {
	queue := l.storage.Queues.NewQueueClient(row.Queue)
	message, err := putHidden(ctx, queue, row.Text(at), scheduledHidden, scheduledLife)
	if err != nil {
		return fmt.Errorf("put the message of %v: %w", at, err)
	}
	if err := fault.Point(pointSchedulePut); err != nil {
		return err
	}
	row.Last, row.Runs = &at, row.Runs+1
	row.PendingQueue, row.PendingID, row.PendingReceipt = row.Queue, message.id, message.receipt
	row.SetNext(next)
	if err := l.rows.Put(ctx, row); err != nil {
		if errors.Is(err, schedulerow.ErrChanged) {
			_ = newAzureQueue(queue).delete(ctx, message) // If it stays, it is never seen.
		}
		// After any other error the row may name the message, which must stay then.
		return err
	}
	if err := fault.Point(pointScheduleRecorded); err != nil {
		return err
	}
	l.function.stats.succeeded.Add(1)
	return l.show(ctx, row)
}

// show shows the message of the last occurrence, unless that has happened, and notes it in the row.
func (l *scheduleListener) show(ctx context.Context, row *schedulerow.Row) error {
	_, err := l.storage.Queues.NewQueueClient(row.PendingQueue).UpdateMessage(ctx, row.PendingID, row.PendingReceipt,
		row.Text(ptr.Value(row.Last)), &azqueue.UpdateMessageOptions{VisibilityTimeout: to.Ptr(int32(0))})
	err = queueFailure(err)
	// Not held: it was shown, and perhaps received and deleted. No queue: its messages went with it.
	if err != nil && !errors.Is(err, errNotHeld) && !errors.Is(err, errNoQueue) {
		return fmt.Errorf("show the message of %v: %w", ptr.Value(row.Last), err)
	}
	if err := fault.Point(pointScheduleShown); err != nil {
		return err
	}
	l.app.Wake(row.PendingQueue)
	row.PendingQueue, row.PendingID, row.PendingReceipt = "", "", ""
	if err := l.rows.Put(ctx, row); err != nil {
		return err
	}
	return fault.Point(pointScheduleCleared)
}

// putHidden puts a message, and creates the queue if it does not exist.
func putHidden(ctx context.Context, queue *azqueue.QueueClient, text string,
	hidden, life time.Duration) (receivedMessage, error) {
	options := &azqueue.EnqueueMessageOptions{VisibilityTimeout: seconds(hidden), TimeToLive: to.Ptr(int32(-1))}
	if life > 0 {
		options.TimeToLive = seconds(life)
	}
	got, err := queue.EnqueueMessage(ctx, text, options)
	if errors.Is(queueFailure(err), errNoQueue) {
		if err := newAzureQueue(queue).create(ctx); err != nil {
			return receivedMessage{}, err
		}
		got, err = queue.EnqueueMessage(ctx, text, options)
	}
	if err != nil || len(got.Messages) == 0 {
		return receivedMessage{}, queueFailure(err)
	}
	return receivedMessage{id: ptr.Value(got.Messages[0].MessageID), receipt: ptr.Value(got.Messages[0].PopReceipt)}, nil
}
