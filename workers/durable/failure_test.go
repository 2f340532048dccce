package durable_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/durable/hub"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/lazulitest"
	"github.com/lazuli-storage/lazuli/workers"
	"github.com/lazuli-storage/lazuli/workers/durable"
	"github.com/lazuli-storage/lazuli/workers/durable/entity"
)

// nested returns a failure with inner ones.
func nested(depth int) *durable.Failure {
	f := &durable.Failure{Type: fmt.Sprint("Shop.Level", depth), Message: fmt.Sprint("level ", depth),
		Stack: fmt.Sprint("at Level", depth)}
	if depth > 1 {
		f.Inner = nested(depth - 1)
	}
	return f
}

func sameFailure(a, b *durable.Failure) bool {
	one, _ := json.Marshal(a)
	two, _ := json.Marshal(b)
	return string(one) == string(two)
}

// What an activity, a workflow or an operation fails with reaches the workflow that called it, and the client, to any
// depth; an error without details has the type Error.
func TestFailuresReachTheCaller(t *testing.T) {
	t.Parallel()
	account := lazulitest.Start(t).Account(t)
	engine := durable.NewEngine(durable.Options{})
	app := workers.New(workers.Config{Storage: account.Storage, Logger: slog.New(slog.DiscardHandler), Durable: engine})
	deep := nested(9)
	want := map[string]*durable.Failure{
		"deep":      deep,
		"hidden":    deep,
		"wrapped":   {Type: "Error", Message: "pay: level 9", Inner: deep},
		"plain":     {Type: "Error", Message: "broken"},
		"permanent": {Type: "Error", Message: "broken", NonRetriable: true},
	}
	fail := func(how string) error {
		return map[string]error{"deep": deep, "hidden": workers.Logged(deep), "wrapped": fmt.Errorf("pay: %w", deep),
			"plain": errors.New("broken"), "permanent": workers.Permanent(errors.New("broken"))}[how]
	}
	workers.Activity(app, "fail", func(_ context.Context, how string) (int, error) { return 0, fail(how) })
	durable.Register(app, "fails", func(_ *durable.Context, how string) (int, error) {
		return 0, fail(how)
	})
	app.Entity("failing", entity.Operation(new(entity.Kind[int]), "fail",
		func(_ *entity.Context, _ *int, how string) (int, error) { return 0, fail(how) }))
	durable.Register(app, "calls", func(ctx *durable.Context, how string) (string, error) {
		_, activity := durable.Call[int](ctx, "fail", how)
		_, child := durable.CallWorkflow[int](ctx, "fails", how)
		_, operation := durable.CallEntity[int](ctx, "@failing@a", "fail", how)
		for called, err := range map[string]error{"activity": activity, "workflow": child, "entity": operation} {
			var got *durable.Failure
			if !errors.As(err, &got) || !sameFailure(got, want[how]) || !strings.HasSuffix(err.Error(), want[how].Message) {
				return "", fmt.Errorf("the %s failed with %q, %+v", called, err, got)
			}
		}
		return "as it should", nil
	})
	account.Run(app)
	account.Drain()
	client, err := engine.Client()
	check.OK(t, err)
	for how, f := range want {
		id := start(t, client.Hub(), "calls", hub.StartOptions{Input: `"` + how + `"`})
		if i := ended(t, client.Hub(), id, "Completed"); i.Output != `"as it should"` {
			t.Errorf("%s: %s", how, i.Output)
		}
		i := ended(t, client.Hub(), start(t, client.Hub(), "fails", hub.StartOptions{Input: `"` + how + `"`}), "Failed")
		if i.FailureType != f.Type || i.FailureMessage != f.Message {
			t.Errorf("%s: the client sees %s: %s", how, i.FailureType, i.FailureMessage)
		}
		depth := 0
		for d := i.Failure(); d != nil; d = d.InnerFailure {
			depth++
		}
		for d := f; d != nil; d = d.Inner {
			depth--
		}
		if depth != 0 {
			t.Errorf("%s: the client sees %d levels more than there are", how, depth)
		}
	}
}

// A failure that is too large for a message keeps its types and messages; none has the name of a type of Go.
func TestLargeFailures(t *testing.T) {
	t.Parallel()
	h := newHub(t, lazulitest.Start(t), nil)
	r := registry(t, workflows{"plain": func(*durable.Context) (any, error) {
		return nil, errors.New("broken")
	}}, nil)
	client := h.run(r)
	if i := ended(t, client, start(t, client, "plain", hub.StartOptions{}), "Failed"); i.FailureType != "Error" {
		t.Errorf("the type is %q", i.FailureType)
	}
	account := lazulitest.Start(t).Account(t)
	engine := durable.NewEngine(durable.Options{})
	app := workers.New(workers.Config{Storage: account.Storage, Logger: slog.New(slog.DiscardHandler), Durable: engine})
	for name, shape := range map[string]struct{ levels, stack, message int }{
		"stacks": {30, 8000, 10}, "levels": {500, 10, 10}, "messages": {40, 0, 4000}} {
		durable.Register(app, durable.Workflow[any, any](name), func(*durable.Context, any) (any, error) {
			f := nested(shape.levels)
			for at := f; at != nil; at = at.Inner {
				at.Stack, at.Message = strings.Repeat("s", shape.stack), at.Message+strings.Repeat("m", shape.message)
			}
			return nil, f
		})
	}
	account.Run(app)
	account.Drain()
	c, err := engine.Client()
	check.OK(t, err)
	for name, levels := range map[string]int{"stacks": 30, "levels": 64, "messages": 40} {
		i := ended(t, c.Hub(), start(t, c.Hub(), name, hub.StartOptions{}), "Failed")
		depth := 0
		for d := i.Failure(); d != nil; d = d.InnerFailure {
			if depth++; !strings.HasPrefix(d.ErrorType, "Shop.Level") || !strings.HasPrefix(d.ErrorMessage, "level ") {
				t.Errorf("%s: level %d is %s: %s", name, depth, d.ErrorType, d.ErrorMessage)
			}
		}
		if depth != levels {
			t.Errorf("%s: %d levels, want %d", name, depth, levels)
		}
	}
}

// The line about an activity that has failed says of which instance, task and attempt.
func TestFailedActivityIsLogged(t *testing.T) {
	t.Parallel()
	account := lazulitest.Start(t).Account(t)
	engine := durable.NewEngine(durable.Options{})
	var log logText
	app := workers.New(workers.Config{Storage: account.Storage, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		Durable: engine})
	workers.Activity(app, "charge", func(context.Context, int) (int, error) { return 0, errors.New("no money") })
	durable.Register(app, "order", func(ctx *durable.Context, _ any) (int, error) {
		return durable.Call[int](ctx, "charge", 1)
	})
	account.Run(app)
	account.Drain()
	client, err := engine.Client()
	check.OK(t, err)
	ended(t, client.Hub(), start(t, client.Hub(), "order", hub.StartOptions{InstanceID: "order-7"}), "Failed")
	if want := `instance=order-7 task=0 attempt=1 err="no money"`; !strings.Contains(log.String(), want) {
		t.Errorf("the log has no %q:\n%s", want, log.String())
	}
}

// logText is a log that several goroutines write.
type logText struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write implements io.Writer.
func (l *logText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
