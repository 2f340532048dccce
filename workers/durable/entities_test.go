package durable_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/durable/hub"
	"github.com/lazuli-storage/lazuli/internal/durable/record"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/lazulitest"
	"github.com/lazuli-storage/lazuli/workers"
	"github.com/lazuli-storage/lazuli/workers/durable"
	"github.com/lazuli-storage/lazuli/workers/durable/entity"
)

// entityApp is an app with entities in an account of its own.
type entityApp struct {
	*workers.App
	t       *testing.T
	account *lazulitest.Account
	engine  *durable.Engine
}

func newEntityApp(t *testing.T, o durable.Options, options ...lazulitest.Option) *entityApp {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	if testing.Verbose() && os.Getenv("DURABLE_LOG") != "" {
		log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	a := &entityApp{t: t, account: lazulitest.Start(t, options...).Account(t)}
	o.Hub = "Test"
	a.engine = durable.NewEngine(o)
	a.App = workers.New(workers.Config{Storage: a.account.Storage, Clock: o.Clock, Logger: log, Durable: a.engine})
	a.Entity("log", logEntity())
	a.Entity("account", accountEntity())
	return a
}

// run starts the app and returns a client of it.
func (a *entityApp) run() *hub.Client {
	a.t.Helper()
	a.account.Run(a.App)
	ctx, cancel := context.WithTimeout(a.t.Context(), check.Patience)
	defer cancel()
	c, err := a.engine.WaitClient(ctx)
	check.OK(a.t, err)
	return c.Hub()
}

// logEntity keeps what it receives, in order.
func logEntity() *entity.Kind[[]string] {
	e := new(entity.Kind[[]string])
	entity.Operation(e, "add", func(_ *entity.Context, s *[]string, line string) (int, error) {
		*s = append(*s, line)
		return len(*s), nil
	})
	entity.Operation(e, "get", func(_ *entity.Context, s *[]string, _ any) ([]string, error) { return *s, nil })
	entity.Operation(e, "fail", func(ctx *entity.Context, s *[]string, line string) (any, error) {
		*s = append(*s, line)
		ctx.Signal(ctx.ID, "add", "of a failed operation", time.Time{})
		if line == "panic" {
			panic("the operation is broken")
		}
		return nil, errors.New("refused")
	})
	entity.Operation(e, "delete", func(ctx *entity.Context, _ *[]string, _ any) (any, error) {
		ctx.Delete()
		return nil, nil
	})
	entity.Operation(e, "pass", func(ctx *entity.Context, s *[]string, line string) (any, error) {
		*s = append(*s, "passed "+line)
		ctx.Signal(hub.EntityID("log", "next"), "add", line, time.Time{})
		ctx.Start("note", "started-by-"+line, line)
		return nil, nil
	})
	return e
}

func accountEntity() *entity.Kind[int] {
	e := new(entity.Kind[int])
	entity.Operation(e, "get", func(_ *entity.Context, s *int, _ any) (int, error) { return *s, nil })
	entity.Operation(e, "add", func(_ *entity.Context, s *int, n int) (int, error) { *s += n; return *s, nil })
	return e
}

func sendSignal(t *testing.T, c *hub.Client, id, operation string, in any) {
	t.Helper()
	text, err := json.Marshal(in)
	check.OK(t, err)
	check.OK(t, c.SignalEntity(t.Context(), id, operation, hub.SignalOptions{Input: string(text)}))
}

// stateOf returns an entity's state.
func stateOf[S any](t *testing.T, c *hub.Client, id string) (s S) {
	t.Helper()
	e, err := c.Entity(t.Context(), id, true)
	if errors.Is(err, hub.ErrEntityNotFound) {
		return s
	}
	check.OK(t, err)
	if e.State != nil {
		check.OK(t, json.Unmarshal([]byte(*e.State), &s))
	}
	return s
}

// Signals of a client and of a workflow arrive in their order, calls answer, and what a failed operation did is undone.
func TestEntityOperations(t *testing.T) {
	t.Parallel()
	a := newEntityApp(t, durable.Options{})
	id := hub.EntityID("Log", "one")
	durable.Register(a.App, "note", func(ctx *durable.Context, line string) (int, error) {
		return durable.CallEntity[int](ctx, id, "ADD", "note "+line)
	})
	durable.Register(a.App, "burst", func(ctx *durable.Context, n int) (string, error) {
		for i := range n {
			if err := ctx.SignalEntity(id, "add", fmt.Sprint("workflow ", i)); err != nil {
				return "", err
			}
		}
		var failures []string
		for _, operation := range []string{"fail", "unknown"} {
			_, err := durable.CallEntity[any](ctx, id, operation, "x")
			failures = append(failures, fmt.Sprint(err))
		}
		_, err := durable.CallEntity[any](ctx, id, "fail", "panic")
		failures = append(failures, fmt.Sprint(err))
		_, err = durable.CallEntity[any](ctx, hub.EntityID("nobody", "x"), "get", nil)
		failures = append(failures, fmt.Sprint(err))
		_, err = durable.CallEntity[any](ctx, "no entity", "get", nil)
		return strings.Join(append(failures, fmt.Sprint(err)), "\n"), nil
	})
	c := a.run()
	const n = 150
	for i := range n {
		sendSignal(t, c, id, "add", fmt.Sprint("client ", i))
	}
	workflow := start(t, c, "burst", hub.StartOptions{Input: fmt.Sprint(n)})
	i := ended(t, c, workflow, "Completed")
	for _, want := range []string{"refused", "has no operation", "panicked", "has no entity", "cannot be used"} {
		if !strings.Contains(i.Output, want) {
			t.Errorf("the failures are %s; want %q", i.Output, want)
		}
	}
	lines := stateOf[[]string](t, c, id)
	for _, from := range []string{"client", "workflow"} {
		var got, want []string
		for i := range n {
			want = append(want, fmt.Sprint(from, " ", i))
		}
		for _, l := range lines {
			if strings.HasPrefix(l, from) {
				got = append(got, l)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("the signals of the %s arrived as %q", from, got)
		}
	}
	if len(lines) != 2*n {
		t.Errorf("%d lines, want %d", len(lines), 2*n)
	}

	sendSignal(t, c, id, "pass", "on")
	check.Eventually(t, func() bool {
		return slices.Equal(stateOf[[]string](t, c, hub.EntityID("log", "next")), []string{"on"})
	},
		"the entity signals another one")
	check.Eventually(t, func() bool {
		_, err := c.Get(t.Context(), "started-by-on")
		return err == nil
	}, "the entity starts a workflow")
	if i := ended(t, c, "started-by-on", "Completed"); i.Output != fmt.Sprint(2*n+2) {
		t.Errorf("the workflow that the entity started returned %s", i.Output)
	}
	// The same signal again, as a client sends it after an error, has no second effect.
	for range 3 {
		check.OK(t, c.SignalEntity(t.Context(), id, "add", hub.SignalOptions{Input: `"again"`, RequestID: "r-1"}))
	}
	sendSignal(t, c, id, "add", "last")
	check.Eventually(t, func() bool {
		s := stateOf[[]string](t, c, id)
		return s[len(s)-1] == "last"
	}, "the last signal arrives")
	if got := stateOf[[]string](t, c, id); len(got) != 2*n+4 {
		t.Errorf("the last lines are %q", got[2*n:])
	}
	for _, bad := range []string{"", "x", "@", "@x", "@@x", "@log@\x00", "@log@" + strings.Repeat("x", 300)} {
		if err := c.SignalEntity(t.Context(), bad, "add", hub.SignalOptions{}); !errors.Is(err,
			record.ErrBadInstanceID) {
			t.Errorf("a signal to %.20q: %v", bad, err)
		}
	}
	if err := c.SignalEntity(t.Context(), id, "", hub.SignalOptions{}); !errors.Is(err, record.ErrBadRequest) {
		t.Errorf("a signal without an operation: %v", err)
	}
}

// A delayed signal arrives when it is due and not before, from a client and from a workflow.
func TestDelayedSignals(t *testing.T) {
	t.Parallel()
	clock := lazulitest.NewClock()
	a := newEntityApp(t, durable.Options{Clock: clock}, lazulitest.WithFakeClock(clock))
	id := hub.EntityID("log", "one")
	durable.Register(a.App, "later", func(ctx *durable.Context, _ any) (any, error) {
		return nil, ctx.SignalEntityAt(id, "add", "workflow", ctx.CurrentTimeUtc.Add(2*time.Hour))
	})
	c := a.run()
	a.account.Drain()
	check.OK(t, c.SignalEntity(t.Context(), id, "add",
		hub.SignalOptions{Input: `"client"`, At: clock.Now().Add(time.Hour)}))
	start(t, c, "later", hub.StartOptions{})
	a.account.Drain()
	for _, want := range [][]string{nil, {"client"}, {"client", "workflow"}} {
		if got := stateOf[[]string](t, c, id); !slices.Equal(got, want) {
			t.Fatalf("at %v the entity has %q, want %q", clock.Now(), got, want)
		}
		clock.Advance(30 * time.Minute)
		a.account.Drain()
		if got := stateOf[[]string](t, c, id); !slices.Equal(got, want) {
			t.Fatalf("half an hour later the entity has %q, want %q", got, want)
		}
		clock.Advance(30*time.Minute + time.Second)
		a.account.Drain()
	}
}

// Workflows move money between accounts that they lock, several at once and in any order; none waits without an end,
// and no one sees a half of it.
func TestLocksOfSeveralEntities(t *testing.T) {
	t.Parallel()
	a := newEntityApp(t, durable.Options{})
	const accounts, transfers = 4, 24
	of := func(i int) string { return hub.EntityID("account", fmt.Sprint(i%accounts)) }
	durable.Register(a.App, "move", func(ctx *durable.Context, n int) (int, error) {
		from, to := of(n), of(n+1+n%(accounts-1))
		unlock, err := ctx.LockEntities(from, to, from)
		if err != nil {
			return 0, err
		}
		if _, err := ctx.LockEntities(to); !errors.Is(err, durable.ErrLocked) {
			return 0, fmt.Errorf("a second lock: %w", err)
		}
		before := [2]int{}
		for i, id := range []string{from, to} {
			if before[i], err = durable.CallEntity[int](ctx, id, "get", nil); err != nil {
				return 0, err
			}
		}
		if _, err := durable.CallEntity[int](ctx, from, "add", -1); err != nil {
			return 0, err
		}
		if n%6 == 0 { // The other half is missing: unlocked by the failure.
			return 0, errors.Join(errors.New("gave up"), ctx.SignalEntity(from, "add", 1))
		}
		after, err := durable.CallEntity[int](ctx, to, "add", 1)
		if err != nil || after != before[1]+1 {
			return 0, fmt.Errorf("the account has %d, had %d: %w", after, before[1], err)
		}
		unlock()
		unlock()
		return durable.CallEntity[int](ctx, from, "get", nil)
	})
	c := a.run()
	var ids []string
	for i := range transfers {
		ids = append(ids, start(t, c, "move", hub.StartOptions{InstanceID: fmt.Sprint("m", i), Input: fmt.Sprint(i)}))
	}
	for i, id := range ids {
		ended(t, c, id, map[bool]string{true: "Failed", false: "Completed"}[i%6 == 0])
	}
	check.Eventually(t, func() bool {
		sum, locked := 0, 0
		for i := range accounts {
			sum += stateOf[int](t, c, of(i))
			e, err := c.Entity(t.Context(), of(i), false)
			check.OK(t, err)
			if e.LockedBy != "" || e.Backlog > 0 {
				locked++
			}
		}
		return sum == 0 && locked == 0
	}, "all accounts are unlocked, and their sum is 0")
}

// What waits for a locked entity: signals and calls of others, more than one batch and more bytes than one batch can
// have; and a workflow that is terminated while it holds, or waits for, a lock releases it.
func TestLockIsReleasedByTermination(t *testing.T) {
	t.Parallel()
	a := newEntityApp(t, durable.Options{})
	one, two := hub.EntityID("log", "1"), hub.EntityID("log", "2")
	durable.Register(a.App, "hold", func(ctx *durable.Context, ids []string) (any, error) {
		if _, err := ctx.LockEntities(ids...); err != nil {
			return nil, err
		}
		if _, err := durable.CallEntity[int](ctx, ids[0], "add", "locked"); err != nil {
			return nil, err
		}
		_, err := durable.WaitForEvent[any](ctx, "go", -1)
		return nil, err
	})
	c := a.run()
	list := func(ids ...string) string { text, _ := json.Marshal(ids); return string(text) }
	holder := start(t, c, "hold", hub.StartOptions{InstanceID: "holder", Input: list(one)})
	lockedBy := func(id string) string {
		e, err := c.Entity(t.Context(), id, false)
		if errors.Is(err, hub.ErrEntityNotFound) {
			return ""
		}
		check.OK(t, err)
		return e.LockedBy
	}
	check.Eventually(t, func() bool { return lockedBy(one) == holder }, "the workflow has the lock")
	large := strings.Repeat("x", 100_000)
	for i := range 50 {
		sendSignal(t, c, one, "add", fmt.Sprint(i, large))
	}
	waiting := check.Size(30, 100)
	for i := range waiting { // They have locked two already, or wait for it.
		start(t, c, "hold", hub.StartOptions{InstanceID: fmt.Sprint("w", i), Input: list(two, one)})
	}
	check.Eventually(t, func() bool {
		e, err := c.Entity(t.Context(), one, false)
		check.OK(t, err)
		return e.Backlog >= 50+waiting
	}, "all wait for the first one")
	for i := range waiting {
		check.OK(t, c.Terminate(t.Context(), fmt.Sprint("w", i), "enough", false))
	}
	if got := stateOf[[]string](t, c, one); len(got) != 1 {
		t.Errorf("a locked entity has run %d operations, want that of its owner alone", len(got))
	}
	check.OK(t, c.Terminate(t.Context(), holder, "enough", false))
	check.Eventually(t, func() bool {
		e, err := c.Entity(t.Context(), one, false)
		check.OK(t, err)
		return e.Backlog == 0 && e.LockedBy == "" && lockedBy(two) == "" && len(stateOf[[]string](t, c, one)) == 51
	}, "the locks are released, and all signals have run")
	for i, line := range stateOf[[]string](t, c, one)[1:] {
		if line != fmt.Sprint(i, large) {
			t.Errorf("signal %d is %.10q", i, line)
		}
	}
}

func TestQueryAndCleanEntities(t *testing.T) {
	t.Parallel()
	a := newEntityApp(t, durable.Options{})
	durable.Register(a.App, "hold", func(ctx *durable.Context, id string) (any, error) {
		if _, err := ctx.LockEntities(id); err != nil {
			return nil, err
		}
		_, err := durable.WaitForEvent[any](ctx, "go", -1)
		return nil, err
	})
	c := a.run()
	const n = 25
	began := time.Now()
	var ids []string
	for i := range n {
		// Keys have any characters.
		id := hub.EntityID("log", fmt.Sprintf("%02d é/\\#?'%%+@", i))
		ids = append(ids, id)
		sendSignal(t, c, id, "add", strings.Repeat("é", 40_000*(i%2)))
	}
	sendSignal(t, c, hub.EntityID("account", "1"), "add", 1)
	all := func(q hub.EntityQuery) (found []*record.EntityInfo) {
		t.Helper()
		for {
			page, err := c.QueryEntities(t.Context(), q)
			check.OK(t, err)
			if found = append(found, page.Entities...); page.Continuation == "" {
				return found
			}
			q.Continuation = page.Continuation
		}
	}
	check.Eventually(t, func() bool { return len(all(hub.EntityQuery{Top: 7})) == n+1 }, "all signals have run")
	var got []string
	for i, e := range all(hub.EntityQuery{Prefix: "@log@", State: true, Top: 7, From: began.Add(-time.Minute)}) {
		got = append(got, e.ID)
		if want := 4 + 2*40_000*(i%2); e.State == nil || len(*e.State) != want {
			t.Errorf("%s has a state of another length than %d", e.ID, want)
		}
	}
	if !slices.Equal(got, ids) {
		t.Errorf("the query has %q, want %q", got, ids)
	}
	for name, q := range map[string]hub.EntityQuery{"prefix": {Prefix: "@logs"},
		"from": {From: time.Now().Add(time.Hour)},
		"to":   {To: began}} {
		if got := all(q); len(got) != 0 {
			t.Errorf("%s: %d entities", name, len(got))
		}
	}
	if _, err := c.QueryEntities(t.Context(), hub.EntityQuery{Top: 1001}); err == nil {
		t.Error("a page of 1,001 was accepted")
	}
	if _, err := c.QueryEntities(t.Context(), hub.EntityQuery{Continuation: "x"}); !errors.Is(err,
		record.ErrBadRequest) {
		t.Errorf("a continuation that cannot be: %v", err)
	}

	// An entity without a state goes by itself; one that is locked stays until its owner is gone.
	sendSignal(t, c, ids[0], "delete", nil)
	check.Eventually(t, func() bool {
		_, err := c.Entity(t.Context(), ids[0], false)
		return errors.Is(err, hub.ErrEntityNotFound)
	}, "the entity is removed")
	locked := hub.EntityID("log", "locked")
	start(t, c, "hold", hub.StartOptions{InstanceID: "owner", Input: `"` + locked + `"`})
	check.Eventually(t, func() bool {
		e, err := c.Entity(t.Context(), locked, false)
		return err == nil && e.LockedBy == "owner"
	}, "the entity is locked")
	clean := func() *hub.Cleaned {
		t.Helper()
		done, err := c.CleanEntities(t.Context(), hub.CleanOptions{Empty: true, Locks: true})
		check.OK(t, err)
		return done
	}
	if d := clean(); d.Released != 0 || d.Removed != 0 {
		t.Errorf("while the owner runs: %+v", d)
	}
	// The owner disappears without releasing its lock, as one in another hub's storage would.
	_, err := a.account.Tables.NewClient("TestInstances").DeleteEntity(t.Context(), "owner", "", nil)
	check.OK(t, err)
	if d := clean(); d.Released != 1 {
		t.Errorf("after the owner: %+v", d)
	}
	check.Eventually(t, func() bool {
		_, err := c.Entity(t.Context(), locked, false)
		return errors.Is(err, hub.ErrEntityNotFound)
	}, "the released entity, which has no state, is removed")
}

// Marks of messages and of released locks are deleted once no copy can come.
func TestMarksOfEntitiesAreTrimmed(t *testing.T) {
	t.Parallel()
	clock := lazulitest.NewClock()
	a := newEntityApp(t, durable.Options{Clock: clock}, lazulitest.WithFakeClock(clock))
	c := a.run()
	a.account.Drain()
	for i := range 300 {
		sendSignal(t, c, hub.EntityID("log", fmt.Sprint(i%3)), "delete", nil)
	}
	a.account.Drain()
	rows := func() (n int) {
		for pager := a.account.Tables.NewClient("TestEntities").NewListEntitiesPager(nil); pager.More(); {
			page, err := pager.NextPage(t.Context())
			check.OK(t, err)
			n += len(page.Entities)
		}
		return n
	}
	clean := func() {
		t.Helper()
		_, err := c.CleanEntities(t.Context(), hub.CleanOptions{Empty: true})
		check.OK(t, err)
	}
	if clean(); rows() != 300 {
		t.Errorf("%d rows at once, want a mark of each signal", rows())
	}
	clock.Advance(2 * time.Hour)
	if clean(); rows() != 0 {
		t.Errorf("%d rows after two hours", rows())
	}
}

func TestWhenAllAndWhenAny(t *testing.T) {
	t.Parallel()
	a := newEntityApp(t, durable.Options{})
	workers.Activity(a.App, "double", func(_ context.Context, n int) (int, error) {
		if n < 0 {
			return 0, errors.New("negative")
		}
		return 2 * n, nil
	})
	durable.Register(a.App, "all", func(ctx *durable.Context, numbers []int) ([]int, error) {
		var calls []durable.Task
		for _, n := range numbers {
			calls = append(calls, ctx.CallActivity("double", durable.WithInput(n)))
		}
		return durable.WhenAll[int](calls...)
	})
	// The order of what happens decides, in each replay too, and not the order of the arguments.
	durable.Register(a.App, "any", func(ctx *durable.Context, _ any) (string, error) {
		waits := map[string]durable.Task{}
		names := []string{"a", "b", "c"}
		for _, n := range names {
			waits[n] = ctx.WaitForSingleEvent(n, -1)
		}
		order := ctx.Version + ":"
		for len(names) > 0 {
			var left []durable.Task
			for _, n := range names {
				left = append(left, waits[n])
			}
			i := ctx.WhenAny(left...)
			if _, err := durable.Await[any](left[i]); err != nil {
				return "", err
			}
			if _, err := durable.Call[int](ctx, "double", i); err != nil { // another replay
				return "", err
			}
			order += names[i]
			names = slices.Delete(names, i, i+1)
		}
		timer, never := ctx.CreateTimer(0), ctx.WaitForSingleEvent("never", -1)
		if ctx.WhenAny(never, timer) != 1 {
			return "", errors.New("the event came")
		}
		retried := ctx.CallActivity("double", durable.WithInput(-1),
			durable.WithRetry(durable.RetryPolicy{MaxAttempts: 2, InitialRetryInterval: time.Millisecond}))
		ctx.WhenAny(retried)
		if _, err := durable.Await[int](retried); err == nil {
			return "", errors.New("the activity did not fail")
		}
		return order, nil
	})
	c := a.run()
	if i := ended(t, c, start(t, c, "all", hub.StartOptions{Input: "[1,2,3]"}), "Completed"); i.Output != "[2,4,6]" {
		t.Errorf("the output is %s", i.Output)
	}
	if i := ended(t, c, start(t, c, "all", hub.StartOptions{Input: "[1,-2,-3]"}),
		"Failed"); strings.Count(i.FailureMessage,
		"negative") != 2 {
		t.Errorf("the failure is %s", i.FailureMessage)
	}
	id := start(t, c, "any", hub.StartOptions{Version: "1.2"})
	for _, event := range []string{"c", "a", "b"} {
		check.OK(t, c.RaiseEvent(t.Context(), id, event, ""))
	}
	if i := ended(t, c, id, "Completed"); i.Output != `"1.2:cab"` {
		t.Errorf("the order is %s", i.Output)
	}
}

// ahead is the system's clock, some time ahead.
type ahead struct {
	workers.Clock
	by time.Duration
}

func (c ahead) Now() time.Time { return time.Now().Add(c.by) }

// Signals of a workflow and of an entity keep their order when the sender moves to a process whose clock is behind.
func TestSignalsKeepTheirOrderWhateverTheClocks(t *testing.T) {
	t.Parallel()
	account := lazulitest.Start(t).Account(t)
	quiet := slog.New(slog.DiscardHandler)
	direct, relayed := hub.EntityID("log", "direct"), hub.EntityID("log", "relayed")
	relay := new(entity.Kind[int])
	entity.Operation(relay, "next", func(ctx *entity.Context, n *int, _ any) (any, error) {
		*n++
		ctx.Signal(relayed, "add", fmt.Sprint(*n), time.Time{})
		return nil, nil
	})
	// process runs f while one process works whose clock is ahead.
	process := func(by time.Duration, f func(c *hub.Client)) {
		t.Helper()
		engine := durable.NewEngine(durable.Options{Hub: "Test", Clock: ahead{lazulitest.NewClock(), by}})
		app := workers.New(workers.Config{Storage: account.Storage, Logger: quiet, Durable: engine})
		durable.Register(app, "signals", func(ctx *durable.Context, _ any) (any, error) {
			for n := range 3 {
				if n > 0 {
					if _, err := durable.WaitForEvent[any](ctx, "go", -1); err != nil {
						return nil, err
					}
				}
				if err := ctx.SignalEntity(direct, "add", fmt.Sprint(n+1)); err != nil {
					return nil, err
				}
				if err := ctx.SignalEntity(hub.EntityID("relay", "one"), "next", nil); err != nil {
					return nil, err
				}
			}
			return nil, nil
		})
		// What the entities receive waits until the workflow goes on.
		durable.Register(app, "hold", func(ctx *durable.Context, _ any) (any, error) {
			unlock, err := ctx.LockEntities(direct, relayed)
			if err != nil {
				return nil, err
			}
			defer unlock()
			return durable.WaitForEvent[any](ctx, "go", -1)
		})
		app.Entity("relay", relay)
		app.Entity("log", logEntity())
		check.OK(t, app.Start(t.Context()))
		c, err := engine.WaitClient(t.Context())
		check.OK(t, err)
		f(c.Hub())
		check.OK(t, app.Stop(t.Context()))
	}
	for i, by := range []time.Duration{2 * time.Hour, time.Hour, 0} {
		process(by, func(c *hub.Client) {
			if i == 0 {
				start(t, c, "hold", hub.StartOptions{InstanceID: "holder"})
				check.Eventually(t, func() bool {
					e, err := c.Entity(t.Context(), relayed, false)
					return err == nil && e.LockedBy != ""
				}, "the entities are locked")
				start(t, c, "signals", hub.StartOptions{InstanceID: "one"})
			} else {
				check.OK(t, c.RaiseEvent(t.Context(), "one", "go", ""))
			}
			check.Eventually(t, func() bool { return stateOf[int](t, c, hub.EntityID("relay", "one")) == i+1 },
				"process %d passes the signal on", i)
		})
	}
	process(0, func(c *hub.Client) {
		check.OK(t, c.RaiseEvent(t.Context(), "holder", "go", ""))
		for _, id := range []string{direct, relayed} {
			check.Eventually(t, func() bool { return len(stateOf[[]string](t, c, id)) == 3 }, "%s has all signals", id)
			if got := stateOf[[]string](t, c, id); !slices.Equal(got, []string{"1", "2", "3"}) {
				t.Errorf("%s received %q", id, got)
			}
		}
	})
}
