package servertest

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/sdk/hostrow"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/testaccount"
	"github.com/lazuli-storage/lazuli/workers"
)

// An app is in the account's list while it runs. A row pauses its function in every process, also in one that starts
// later, and both confirm it.
func TestHeartbeat(t *testing.T) {
	t.Parallel()
	account := testaccount.Open(t)
	queue := account.Queue("beat")
	store := hostrow.Open(account.Tables)
	var calls atomic.Int64
	newApp := func() *workers.App {
		app := workers.New(workers.Config{Storage: account.Storage, HostID: "beat-test", Heartbeat: time.Second,
			About: "shop v1"})
		app.Queue("ship", func(context.Context, workers.QueueMessage) error { calls.Add(1); return nil },
			workers.WithQueueName(queue))
		return app
	}
	processes := func() (list []hostrow.Process) {
		t.Helper()
		got, err := store.List(t.Context())
		check.OK(t, err)
		return got.Processes
	}
	paused := func(n int) func() bool {
		return func() bool {
			list := processes()
			for _, p := range list {
				f := p.Functions[0]
				if f.Name != "ship" || f.Source != queue || f.Paused != (n > 0) || f.ByAccount != f.Paused || p.About != "shop v1" {
					return false
				}
			}
			return len(list) == max(n, 1)
		}
	}
	first, second := newApp(), newApp()
	check.OK(t, first.Start(t.Context()))
	check.Eventually(t, paused(0), "the app does not show")
	check.OK(t, store.Pause(t.Context(), "beat-test", "ship", time.Now()))
	check.Eventually(t, paused(1), "the pause is not confirmed")
	check.OK(t, account.Enqueue(t.Context(), queue, "one"))
	check.OK(t, second.Start(t.Context()))
	check.Eventually(t, paused(2), "the second process does not confirm the pause")
	check.OK(t, second.Resume("ship")) // which is that of the process alone
	if n := calls.Load(); n != 0 || !second.Stats()[0].Paused {
		t.Errorf("%d calls of a paused function; %+v", n, second.Stats())
	}
	check.OK(t, second.Stop(t.Context()))
	check.OK(t, store.Resume(t.Context(), "beat-test", "ship"))
	check.Eventually(t, func() bool { return calls.Load() == 1 }, "the function is not resumed")
	check.OK(t, first.Stop(t.Context()))
	if list := processes(); len(list) != 0 {
		t.Errorf("after the stop: %+v", list)
	}
	// Without a heartbeat, nothing is written and no pause is read.
	check.OK(t, store.Pause(t.Context(), "beat-test", "ship", time.Now()))
	app := workers.New(workers.Config{Storage: account.Storage, HostID: "beat-test"})
	app.Queue("ship", func(context.Context, workers.QueueMessage) error { calls.Add(1); return nil },
		workers.WithQueueName(queue))
	check.OK(t, app.Start(t.Context()))
	check.OK(t, account.Enqueue(t.Context(), queue, "two"))
	check.Eventually(t, func() bool { return calls.Load() == 2 }, "the function does not run")
	if list := processes(); len(list) != 0 {
		t.Errorf("without heartbeats: %+v", list)
	}
	check.OK(t, app.Stop(t.Context()))
	app = workers.New(workers.Config{Storage: account.Storage, Heartbeat: time.Millisecond})
	app.Queue("ship", func(context.Context, workers.QueueMessage) error { return nil })
	if err := app.Start(t.Context()); err == nil {
		t.Error("a heartbeat of a millisecond is accepted")
	}
}
