package durable_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/durable/hub"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/lazulitest"
	"github.com/lazuli-storage/lazuli/workers"
	"github.com/lazuli-storage/lazuli/workers/durable"
)

// Two apps with different functions share a hub: each runs its own, whichever has the partition; what no app has fails,
// and the work of an app that has stopped waits for it.
func TestTwoAppsOnOneHub(t *testing.T) {
	t.Parallel()
	account := lazulitest.Start(t).Account(t)
	// run starts an app whose workflow, activity and entity have a name of their own, and returns what stops it.
	run := func(name string) (*hub.Client, func()) {
		engine := durable.NewEngine(durable.Options{Hub: "Test", LeaseDuration: 15 * time.Second})
		app := workers.New(workers.Config{Storage: account.Storage, Logger: slog.New(slog.DiscardHandler), Durable: engine})
		durable.Register(app, durable.Workflow[any, string](name+" workflow"),
			func(ctx *durable.Context, _ any) (string, error) {
				text, err := durable.Call[string](ctx, name+" activity", nil)
				if err != nil {
					return "", err
				}
				if err := ctx.Sleep(time.Millisecond); err != nil {
					return "", err
				}
				n, err := durable.CallEntity[int](ctx, hub.EntityID(name, "n"), "add", 1)
				if err != nil || n != 1 {
					return "", err
				}
				// The other app's, once it runs.
				if _, err := durable.WaitForEvent[any](ctx, "go", -1); err != nil {
					return "", err
				}
				return durable.CallWorkflow[string](ctx, map[string]string{"one": "two", "two": "one"}[name]+" part", text)
			})
		durable.Register(app, durable.Workflow[string, string](name+" part"),
			func(_ *durable.Context, text string) (string, error) {
				return text + " and " + name, nil
			})
		workers.Activity(app, name+" activity", func(context.Context, any) (string, error) { return name, nil })
		app.Entity(name, accountEntity())
		check.OK(t, app.Start(t.Context()))
		c, err := engine.WaitClient(t.Context())
		check.OK(t, err)
		stopped := false
		stop := func() {
			if !stopped {
				stopped = true
				check.OK(t, app.Stop(context.Background()))
			}
		}
		t.Cleanup(stop)
		return c.Hub(), stop
	}
	// The first app has all partitions when the second one starts.
	one, _ := run("one")
	start(t, one, "one workflow", hub.StartOptions{InstanceID: "1"})
	start(t, one, "two workflow", hub.StartOptions{InstanceID: "early"})
	if i := ended(t, one, "early", "Failed"); i.FailureMessage == "" {
		t.Errorf("a workflow that no app has: %+v", i)
	}
	two, stop := run("two")
	start(t, two, "two workflow", hub.StartOptions{InstanceID: "2"})
	for _, id := range []string{"1", "2"} {
		check.OK(t, one.RaiseEvent(t.Context(), id, "go", ""))
	}
	for id, want := range map[string]string{"1": `"one and two"`, "2": `"two and one"`} {
		if i := ended(t, two, id, "Completed"); i.Output != want {
			t.Errorf("the output of %s is %s, want %s", id, i.Output, want)
		}
	}
	stop()
	start(t, one, "two part", hub.StartOptions{InstanceID: "waits", Input: `"it"`})
	start(t, one, "one part", hub.StartOptions{InstanceID: "other", Input: `"it"`})
	ended(t, one, "other", "Completed")
	if i, err := one.Get(t.Context(), "waits"); err != nil || i.Status != "Pending" {
		t.Errorf("the work of an app that has stopped: %+v, %v", i, err)
	}
	run("two")
	ended(t, one, "waits", "Completed")
}
