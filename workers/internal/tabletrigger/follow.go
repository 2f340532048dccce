package tabletrigger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/google/uuid"

	"github.com/lazuli-storage/lazuli/internal/sdk/sdkerr"
	"github.com/lazuli-storage/lazuli/workers/bindings"
	"github.com/lazuli-storage/lazuli/workers/follow"
	"github.com/lazuli-storage/lazuli/workers/internal/calls"
	"github.com/lazuli-storage/lazuli/workers/internal/queues"
	"github.com/lazuli-storage/lazuli/workers/internal/trigger"
)

// copier runs a function that FollowTable has registered.
type copier struct {
	function *trigger.Function
	feed     Feed
	follower follow.Copy
	every    time.Duration // between attempts after an error
	nudge    calls.Nudge
	reached  atomic.Pointer[string] // the position up to which changes were applied
	clock    calls.Clock
	log      *slog.Logger
}

// NewFollower makes the listener that keeps a copy of the function's table.
func NewFollower(env *trigger.Environment, f *trigger.Function, follower follow.Copy) (*copier, error) {
	if env.Tables == nil {
		return nil, errors.New("the connection string has no table endpoint")
	}
	table := f.Settings.Table
	return &copier{
		function: f, feed: NewFeed(env.Tables, table), follower: follower, every: time.Second, nudge: calls.NewNudge(),
		clock: env.Clock, log: env.Log.With("table", table),
	}, nil
}

// Wake implements trigger.Listener.
func (l *copier) Wake() { l.nudge.Give() }

// Listen implements trigger.Listener.
func (l *copier) Listen(soft, hard context.Context) error {
	failing := ""
	for soft.Err() == nil {
		err := calls.Contain(func() error { return l.follow(soft, hard) })
		if err == nil || soft.Err() != nil {
			return nil
		}
		l.function.Stats.Fail(l.clock.Now(), err)
		if text := sdkerr.Text(err); text != failing {
			failing = text
			l.log.Error("following the table failed; retrying", "err", sdkerr.Short(err))
		}
		l.nudge.Pause(soft, l.clock, l.every)
	}
	return nil
}

// follow follows the table until soft is done or a step fails.
func (l *copier) follow(soft, hard context.Context) error {
	p, err := l.follower.Progress(hard)
	if err != nil {
		return fmt.Errorf("read the progress: %w", err)
	}
	for l.function.Gate.Pass(soft) {
		if p.Reading {
			p, err = l.readPage(soft, hard, p)
		} else {
			p, err = l.readChanges(soft, hard, p)
		}
		if errors.Is(err, follow.ErrRestarted) {
			return l.follow(soft, hard)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// readPage applies one page of the table and returns the progress after it.
func (l *copier) readPage(soft, hard context.Context, p follow.Progress) (follow.Progress, error) {
	var from tableToken
	if p.Next != "" {
		if err := json.Unmarshal([]byte(p.Next), &from); err != nil {
			return p, fmt.Errorf("where reading the table continues: %w", err)
		}
	}
	page, token, err := l.feed.page(soft, from)
	if HasTableCode(err, aztables.TableNotFound) {
		page, token, err = nil, tableToken{}, nil
	}
	if err != nil {
		return p, fmt.Errorf("read the table: %w", err)
	}
	next := follow.Progress{Position: p.Position, Reading: !token.atEnd()}
	if next.Reading {
		text, err := json.Marshal(token)
		if err != nil {
			return p, err
		}
		next.Next = string(text)
	}
	if err := l.apply(hard, page, next); err != nil {
		return next, err
	}
	if !next.Reading {
		// All changes up to the position are in what was read. Without this, WaitIdle would wait until the long poll that
		// comes next has ended, half a minute if the table does not change.
		l.reached.Store(&next.Position)
	}
	return next, nil
}

// readChanges applies the changes after p.Position, for which it waits, and returns the progress after them.
func (l *copier) readChanges(soft, hard context.Context, p follow.Progress) (follow.Progress, error) {
	asked := l.clock.Now()
	changes, page, err := l.feed.states(soft, p.Position, queues.LongWait)
	if HasTableCode(err, aztables.TableNotFound) {
		return l.withoutTable(soft, hard, p)
	}
	if err != nil {
		return p, err
	}
	if !page.Known {
		if p.Position != "" {
			l.log.Warn("the change log no longer has the recorded position; reading the whole table")
		}
		next := follow.Progress{Position: page.Position, Reading: true}
		return next, l.counted(func() error { return l.follower.Restart(hard, next) })
	}
	next := follow.Progress{Position: page.Position}
	if len(changes) > 0 || next != p {
		if err := l.apply(hard, changes, next); err != nil {
			return p, err
		}
	}
	l.reached.Store(&next.Position)
	if len(changes) == 0 && l.clock.Now().Sub(asked) < queues.MinPollingInterval {
		l.nudge.Pause(soft, l.clock, queues.MinPollingInterval) // The long poll returned at once: the service is stopping.
	}
	return next, nil
}

// withoutTable empties the copy of a table that does not exist, and waits before the next attempt.
func (l *copier) withoutTable(soft, hard context.Context, p follow.Progress) (follow.Progress, error) {
	if p.Position != "" {
		p = follow.Progress{Reading: true}
		return p, l.counted(func() error { return l.follower.Restart(hard, p) })
	}
	l.reached.Store(&p.Position)
	l.nudge.Pause(soft, l.clock, l.every)
	return p, nil
}

// Idle reports whether the copy has all changes of the table.
func (l *copier) Idle(ctx context.Context) (bool, error) {
	position := l.reached.Load()
	if position == nil {
		l.nudge.Give()
		return false, nil
	}
	page, err := l.feed.After(ctx, *position, 0)
	if HasTableCode(err, aztables.TableNotFound) {
		return *position == "", nil
	}
	return err == nil && page.Known && len(page.changes) == 0, err
}

// apply passes changes to the follower.
func (l *copier) apply(ctx context.Context, changes []loggedChange, p follow.Progress) error {
	list := make([]bindings.TableChange, len(changes))
	for i, c := range changes {
		list[i] = c.TableChange
		list[i].Table = l.function.Settings.Table
	}
	return l.counted(func() error { return l.follower.Apply(ctx, list, p) })
}

// counted calls the follower, and counts the call as one of the function.
func (l *copier) counted(call func() error) error {
	stats := &l.function.Stats
	stats.InFlight.Add(1)
	defer stats.InFlight.Add(-1)
	i := &trigger.Invocation{ID: uuid.NewString()}
	defer stats.Call(i, l.clock)()
	if err := call(); errors.Is(err, follow.ErrRestarted) {
		return err
	} else if err != nil {
		stats.End(i, l.clock.Now(), err)
		return fmt.Errorf("store the changes: %w", err)
	}
	stats.End(i, l.clock.Now(), nil)
	return nil
}
