package workers

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
	"github.com/lazuli-storage/lazuli/workers/follow"
)

// FollowTable keeps a copy of a table in step with it. It first reads the whole table, then the changes from the
// position that the log had before. It reads the table again if the log no longer has the follower's position, which is
// the case after one week or one million changes, and when the table was deleted and created again. Each change is
// applied once, since the follower stores its position with it. It needs Lazuli, as table triggers do.
//
// Each process that calls FollowTable keeps a copy of its own: no lock between processes is taken. Middleware is not
// called. A failed step is tried again after one second, without limit.
func (a *App) FollowTable(name, table string, follower follow.Copy) *Function {
	f := register(a, name, tableTrigger, []TableOption{WithTable(table)})
	if follower == nil {
		a.errs = append(a.errs, fmt.Errorf("workers: function %q: the follower is nil", name))
	}
	if !tableName().MatchString(table) {
		a.errs = append(a.errs, fmt.Errorf(
			"workers: function %q: table name %q does not have 3 to 63 letters and digits, starting with a letter", name, table))
	}
	f.follows = true
	f.listen = func(a *App, f *Function, storage *Storage) (listener, error) {
		if storage.Tables == nil {
			return nil, errors.New("the connection string has no table endpoint")
		}
		return &followListener{
			function: f, feed: tableFeed{storage.Tables.NewClient(table)}, follower: follower, every: time.Second,
			nudge: newNudge(),
			host:  a.config.HostID, clock: a.config.Clock, log: a.config.Logger.With("function", name, "table", table),
		}, nil
	}
	return f
}

// followListener runs a function that FollowTable has registered.
type followListener struct {
	function *Function
	feed     tableFeed
	follower follow.Copy
	every    time.Duration // between attempts after an error
	nudge    nudge
	reached  atomic.Pointer[string] // the position up to which changes were applied
	host     string
	clock    Clock
	log      *slog.Logger
}

func (l *followListener) wake() { l.nudge.give() }

func (l *followListener) listen(soft, hard context.Context) error {
	failing := ""
	for soft.Err() == nil {
		err := contain(func() error { return l.follow(soft, hard) })
		if err == nil || soft.Err() != nil {
			return nil
		}
		l.function.stats.fail(l.clock.Now(), err)
		if text := sdkerr.Text(err); text != failing {
			failing = text
			l.log.Error("following the table failed; retrying", "err", sdkerr.Short(err))
		}
		l.nudge.pause(soft, l.clock, l.every)
	}
	return nil
}

// follow follows the table until soft is done or a step fails.
func (l *followListener) follow(soft, hard context.Context) error {
	p, err := l.follower.Progress(hard)
	if err != nil {
		return fmt.Errorf("read the progress: %w", err)
	}
	for l.function.gate.pass(soft) {
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
func (l *followListener) readPage(soft, hard context.Context, p follow.Progress) (follow.Progress, error) {
	var from tableToken
	if p.Next != "" {
		if err := json.Unmarshal([]byte(p.Next), &from); err != nil {
			return p, fmt.Errorf("where reading the table continues: %w", err)
		}
	}
	page, token, err := l.feed.page(soft, from)
	if hasTableCode(err, aztables.TableNotFound) {
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
func (l *followListener) readChanges(soft, hard context.Context, p follow.Progress) (follow.Progress, error) {
	asked := l.clock.Now()
	changes, page, err := l.feed.states(soft, p.Position, longWait)
	if hasTableCode(err, aztables.TableNotFound) {
		return l.withoutTable(soft, hard, p)
	}
	if err != nil {
		return p, err
	}
	if !page.known {
		if p.Position != "" {
			l.log.Warn("the change log no longer has the recorded position; reading the whole table")
		}
		next := follow.Progress{Position: page.position, Reading: true}
		return next, l.counted(func() error { return l.follower.Restart(hard, next) })
	}
	next := follow.Progress{Position: page.position}
	if len(changes) > 0 || next != p {
		if err := l.apply(hard, changes, next); err != nil {
			return p, err
		}
	}
	l.reached.Store(&next.Position)
	if len(changes) == 0 && l.clock.Now().Sub(asked) < minPollingInterval {
		l.nudge.pause(soft, l.clock, minPollingInterval) // The long poll returned at once: the service is stopping.
	}
	return next, nil
}

// withoutTable empties the copy of a table that does not exist, and waits before the next attempt.
func (l *followListener) withoutTable(soft, hard context.Context, p follow.Progress) (follow.Progress, error) {
	if p.Position != "" {
		p = follow.Progress{Reading: true}
		return p, l.counted(func() error { return l.follower.Restart(hard, p) })
	}
	l.reached.Store(&p.Position)
	l.nudge.pause(soft, l.clock, l.every)
	return p, nil
}

func (l *followListener) idle(ctx context.Context) (bool, error) {
	position := l.reached.Load()
	if position == nil {
		l.nudge.give()
		return false, nil
	}
	page, err := l.feed.after(ctx, *position, 0)
	if hasTableCode(err, aztables.TableNotFound) {
		return *position == "", nil
	}
	return err == nil && page.known && len(page.changes) == 0, err
}

// apply passes changes to the follower.
func (l *followListener) apply(ctx context.Context, changes []loggedChange, p follow.Progress) error {
	list := make([]TableChange, len(changes))
	for i, c := range changes {
		list[i] = c.TableChange
		list[i].Table = l.function.settings.table
	}
	return l.counted(func() error { return l.follower.Apply(ctx, list, p) })
}

// counted calls the follower, and counts the call as one of the function.
func (l *followListener) counted(call func() error) error {
	stats := &l.function.stats
	stats.inFlight.Add(1)
	defer stats.inFlight.Add(-1)
	ic := &InvocationContext{InvocationID: uuid.NewString(), FunctionID: l.host + "/" + l.function.name,
		FunctionName: l.function.name, TriggerType: l.function.trigger}
	defer stats.call(ic, l.clock)()
	if err := call(); errors.Is(err, follow.ErrRestarted) {
		return err
	} else if err != nil {
		stats.end(ic, l.clock.Now(), err)
		return fmt.Errorf("store the changes: %w", err)
	}
	stats.end(ic, l.clock.Now(), nil)
	return nil
}
