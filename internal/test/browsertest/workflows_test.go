package browsertest

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/microsoft/durabletask-go/task"

	taskhub "github.com/lazuli-storage/lazuli/internal/durable/hub"
	"github.com/lazuli-storage/lazuli/internal/durable/record"
	"github.com/lazuli-storage/lazuli/internal/durable/webhook"
	"github.com/lazuli-storage/lazuli/internal/server"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/workers"
)

func hubOptions(s *server.Server, hub string) (taskhub.Options, error) {
	storage, err := workers.OpenStorage(s.ConnectionString())
	return taskhub.Options{Storage: storage, Hub: hub, Logger: slog.New(slog.DiscardHandler)}, err
}

// workflows is the management API of each hub of a stack, as `lazuli serve` gives it to the dashboard.
func workflows(s *server.Server) func(context.Context, string, string) (http.Handler, error) {
	return func(ctx context.Context, _, hub string) (http.Handler, error) {
		o, err := hubOptions(s, hub)
		if err != nil {
			return nil, err
		}
		c, err := taskhub.NewClient(ctx, o)
		if errors.Is(err, record.ErrHubNotFound) {
			return nil, nil
		}
		return webhook.New(webhook.Options{Client: func(context.Context) (*taskhub.Client, error) { return c, err },
			Hub:    hub,
			Logger: o.Logger}), err
	}
}

// runWorkflows runs the hub "Orders" with some instances.
func (b *browser) runWorkflows() {
	b.t.Helper()
	o, err := hubOptions(b.stack, "Orders")
	if err != nil {
		b.t.Fatal(err)
	}
	backend, err := taskhub.New(o)
	if err != nil {
		b.t.Fatal(err)
	}
	r := task.NewTaskRegistry()
	err = errors.Join(
		r.AddOrchestratorN("order", func(ctx *task.OrchestrationContext) (any, error) {
			if err := errors.Join(ctx.CallActivity("reserve").Await(nil), ctx.CallActivity("charge").Await(nil)); err != nil {
				return nil, err
			}
			var by string
			err := ctx.WaitForSingleEvent("approved", -1).Await(&by)
			return "sold, approved by " + by, err
		}),
		r.AddOrchestratorN("family", func(ctx *task.OrchestrationContext) (any, error) {
			one := ctx.CallSubOrchestrator("order", task.WithSubOrchestrationInstanceID("family-1-order"))
			return nil, errors.Join(ctx.CallSubOrchestrator("stock").Await(nil), one.Await(nil))
		}),
		r.AddOrchestratorN("stock", func(ctx *task.OrchestrationContext) (any, error) {
			return nil, ctx.CallActivity("reserve").Await(nil)
		}),
		r.AddOrchestratorN("report", func(ctx *task.OrchestrationContext) (any, error) {
			return nil,
				ctx.CallActivity("print").Await(nil)
		}),
		r.AddActivityN("reserve", func(task.ActivityContext) (any, error) { return "shelf 7", nil }),
		r.AddActivityN("charge", func(task.ActivityContext) (any, error) { return map[string]any{"amount": 12.5}, nil }),
		r.AddActivityN("print", func(task.ActivityContext) (any, error) {
			return nil, errors.New("the printer is on fire")
		}))
	w := backend.NewWorker(task.NewTaskExecutor(r))
	if err := errors.Join(err, w.Start(context.Background())); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = w.Shutdown(context.Background()) })
	c := backend.Client()
	for id, name := range map[string]string{"order-1": "order", "order-2": "order", "report-1": "report",
		"family-1": "family"} {
		if _, err := c.Start(b.t.Context(), name,
			taskhub.StartOptions{InstanceID: id, Input: `{"item": "tea"}`}); err != nil {
			b.t.Fatal(err)
		}
	}
	check.Eventually(b.t, func() bool {
		history, err := c.History(b.t.Context(), "order-1")
		failed, err2 := c.Get(b.t.Context(), "report-1")
		child, err3 := c.Get(b.t.Context(), "family-1-order")
		return errors.Join(err, err2, err3) == nil && failed.Status == "Failed" && len(history) >= 8 &&
			child.Status == "Running"
	}, "the workflows do not begin")
}

// reloads waits until an instance's page, reloaded, has a text.
func (b *browser) reloads(path, text string) {
	b.t.Helper()
	check.Eventually(b.t, func() bool {
		var page string
		b.do(chromedp.Navigate(b.base+path), chromedp.Text("main", &page))
		return strings.Contains(page, text)
	}, "the page %s does not show %q", path, text)
}

// The graph of a workflow leads by the keyboard to its children and parents.
func TestGraphOfWorkflows(t *testing.T) {
	b := open(t)
	b.runWorkflows()
	b.visit(account + "workflows/Orders")
	b.button("main", "family-1")
	b.sees("Parents and children")
	b.accessible("graph")
	b.do(chromedp.Evaluate(`document.querySelector('.graph a[href*="family-1-order"]').focus()`, nil),
		chromedp.KeyEvent(kb.Enter))
	b.until(`document.querySelector('h1')?.textContent === "family-1-order"`, "the child")
	b.sees("waits for an event")
	b.until(`document.querySelector('.graph [aria-current]').textContent.includes("family-1-order")`,
		"the child in the graph")
}

func TestWorkflowActions(t *testing.T) {
	b := open(t)
	b.runWorkflows()
	const one = account + "workflows/Orders/instance?id=order-1"
	b.visit(account + "workflows")
	b.button("main", "Orders")
	b.sees("report-1")
	b.button("main", "order-1")
	b.sees("shelf 7")
	b.button("main", "Suspend")
	b.sees("It takes effect when")
	b.reloads(one, "Resume")
	b.button("main", "Resume")
	b.sees("It takes effect when")
	b.reloads(one, "Running")
	b.button("main", "Raise an event")
	b.do(chromedp.SendKeys("input[name=name]", "approved"), chromedp.SendKeys("textarea[name=data]", `"Ada"`))
	b.button("main", "Raise")
	b.sees("It takes effect when")
	b.reloads(one, "sold, approved by Ada")
	b.sees("waited for approved")
	b.shot("instance-completed")
	b.accessible("instance-completed")
	b.button("main", "Purge")
	b.confirm()
	b.sees("Deleted.")
	b.page("instance-failed", account+"workflows/Orders/instance?id=report-1", "the printer is on fire")
	b.button("main", "Rewind: retry the failed steps")
	b.sees("It takes effect when")
	b.visit(account + "workflows/Orders/instance?id=order-2")
	b.button("main", "Terminate")
	b.confirm()
	b.sees("It takes effect when")
	b.reloads(account+"workflows/Orders/instance?id=order-2", "Terminated")
	b.visit(account + "workflows/Orders")
	b.button("main", "Start a workflow")
	b.do(chromedp.SendKeys("details[open] input[name=name]", "report"), chromedp.SendKeys("input[name=id]", "report-2"))
	b.button("main", "Start")
	b.sees("The workflow was started.")
	b.reloads(account+"workflows/Orders?status=Failed", "report-2")
}
