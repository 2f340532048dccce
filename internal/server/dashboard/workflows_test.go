package dashboard_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/microsoft/durabletask-go/task"

	taskhub "github.com/lazuli-storage/lazuli/internal/durable/hub"
	"github.com/lazuli-storage/lazuli/internal/durable/inflight"
	"github.com/lazuli-storage/lazuli/internal/durable/webhook"
	"github.com/lazuli-storage/lazuli/internal/server/dashboard"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/workers"
)

// flows is a dashboard over a stack with a running hub "Orders".
type flows struct {
	*site
	client *taskhub.Client
	hub    *taskhub.Backend
	healed atomic.Bool
}

const ordersHub = base + "workflows/Orders"

func openFlows(t *testing.T, change ...func(*dashboard.Options)) *flows {
	t.Helper()
	f := &flows{}
	f.site = open(t, append(change, func(o *dashboard.Options) {
		o.Workflows = func(_ context.Context, _, hub string) (http.Handler, error) {
			if hub != "Orders" {
				return nil, nil
			}
			return webhook.New(webhook.Options{Hub: hub,
				Client:    func(context.Context) (*taskhub.Client, error) { return f.client, nil },
				Unmatched: func() []inflight.Unmatched { return f.hub.Unmatched() },
				Logger:    slog.New(slog.DiscardHandler)}), nil
		}
	})...)
	storage, err := workers.OpenStorage(f.stack.ConnectionString())
	if err != nil {
		t.Fatal(err)
	}
	b, err := taskhub.New(taskhub.Options{Storage: storage, Hub: "Orders", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	r := task.NewTaskRegistry()
	for name, o := range map[string]task.Orchestrator{
		"order": func(ctx *task.OrchestrationContext) (any, error) {
			if err := ctx.CallActivity("reserve").Await(nil); err != nil {
				return nil, err
			}
			var answer string
			err := ctx.WaitForSingleEvent("approved", -1).Await(&answer)
			return answer, err
		},
		"parent": func(ctx *task.OrchestrationContext) (any, error) {
			one, two := ctx.CallSubOrchestrator("child"), ctx.CallSubOrchestrator("child")
			return nil, errors.Join(one.Await(nil), two.Await(nil))
		},
		"child": func(ctx *task.OrchestrationContext) (any, error) { return nil, ctx.CallActivity("reserve").Await(nil) },
		"fails": func(ctx *task.OrchestrationContext) (any, error) { return nil, ctx.CallActivity("break").Await(nil) },
	} {
		err = errors.Join(err, r.AddOrchestratorN(name, o))
	}
	err = errors.Join(err, r.AddActivityN("reserve", func(task.ActivityContext) (any, error) { return "shelf 7", nil }),
		r.AddActivityN("break", func(task.ActivityContext) (any, error) {
			if f.healed.Load() {
				return nil, nil
			}
			return nil, errors.New("the printer is on fire")
		}))
	w := b.NewWorker(task.NewTaskExecutor(r))
	if err := errors.Join(err, w.Start(context.Background())); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Shutdown(context.Background()) })
	f.client, f.hub = b.Client(), b
	return f
}

func (f *flows) start(workflow, id, input string) {
	f.t.Helper()
	if _, err := f.client.Start(f.t.Context(), workflow, taskhub.StartOptions{InstanceID: id, Input: input}); err != nil {
		f.t.Fatal(err)
	}
}

// becomes waits until the page of an instance shows a status.
func (f *flows) becomes(id, status string) {
	f.t.Helper()
	check.Eventually(f.t, func() bool {
		i, err := f.client.Get(f.t.Context(), id)
		return err == nil && i.Status == status
	}, "%s does not become %s", id, status)
}

func instancePage(id string) string {
	return ordersHub + "/instance?" + url.Values{"id": {id}}.Encode()
}

func TestWorkflowPages(t *testing.T) {
	t.Parallel()
	f := openFlows(t)
	f.shows(base+"workflows", "Orders")
	f.shows(ordersHub, "There are no instances")
	f.start("order", "eu/1", `{"item":"<tea>"}`)
	f.start("fails", "broken", "")
	f.becomes("broken", "Failed")
	check.Eventually(t, func() bool { return strings.Contains(f.get(instancePage("eu/1")), "shelf 7") },
		"the activity does not end")

	f.shows(ordersHub, "eu/1", "broken", "Running", "Failed")
	f.shows(ordersHub+"?status=Failed", "broken")
	if page := f.get(ordersHub + "?status=Failed"); strings.Contains(page, "eu/1") {
		t.Error("the failed instances include one that runs")
	}
	f.shows(ordersHub+"?prefix=eu/", "eu/1")
	f.shows(instancePage("eu/1"), "&lt;tea&gt;", "TaskCompleted", "reserve", "<rect", "Suspend", "Raise an event")
	f.shows(instancePage("broken"), "the printer is on fire", "Rewind", "Purge")
	for path, want := range map[string]int{instancePage("none"): 404, base + "workflows/Other": 404,
		ordersHub + "?status=odd": 400, ordersHub + "?marker=odd": 400,
		"/ui/accounts/other/workflows/Orders": 404, instancePage(""): 400} {
		if status, _, _ := f.do("GET", path, nil, nil); status != want {
			t.Errorf("%s: %d, want %d", path, status, want)
		}
	}
}

// Lists show what is a person's; what a task hub keeps is shown when asked for. The list of hubs counts instances.
func TestResourcesOfHubsAreHidden(t *testing.T) {
	t.Parallel()
	f := openFlows(t)
	for _, c := range []struct{ list, name string }{{"queues", "other-control-00"}, {"queues", "orders-poison"},
		{"queues", "orders"}, {"tables", "SalesHistory"}, {"containers", "tea-leases"}} {
		f.post(base+c.list, "action", "create", "name", c.name)
		f.shows(base+c.list, c.name)
	}
	for list, name := range map[string]string{"queues": "orders-control-00", "tables": "OrdersHistory",
		"containers": "orders-leases"} {
		if page := f.get(base + list); strings.Contains(page, ">"+name+"<") || !strings.Contains(page, "hidden") {
			t.Errorf("%s of the hub are shown: %s", list, page)
		}
		f.shows(base+list+"?own=1", ">"+name+"<", "Hide them")
	}
	if page := f.get(base + "queues?prefix=orders-"); !strings.Contains(page, "orders-poison") ||
		!strings.Contains(page, "?own=1&amp;prefix=orders-") {
		t.Error(page)
	}
	f.start("order", "one", "")
	f.start("fails", "two", "")
	f.becomes("one", "Running")
	f.becomes("two", "Failed")
	f.shows(base+"workflows", `<td data-label="Instances" class="number">2</td>`,
		`<td data-label="Failed" class="number bad"><a href="/ui/accounts/devstoreaccount1/workflows/Orders?status=Failed">1</a>`)
}

// Workflows that start others are drawn, with a link to each; the newest instance stands first in the list.
func TestTreeOfWorkflows(t *testing.T) {
	t.Parallel()
	f := openFlows(t)
	f.start("parent", "z", "")
	f.becomes("z", "Completed")
	f.shows(instancePage("z"), "Parents and children", `aria-current="page"`, instancePage("z:0000"),
		"M220 26H244V26H268",
		"M220 26H244V90H268")
	f.shows(instancePage("z:0000"), instancePage("z"))
	f.start("order", "y", "")
	f.becomes("y", "Running")
	if page := f.get(ordersHub); strings.Index(page, ">y</a>") > strings.Index(page, ">z</a>") {
		t.Error("the newest instance is not the first")
	}
	if page := f.get(instancePage("y")); strings.Contains(page, "Parents and children") {
		t.Error("a workflow without parents and children has a graph")
	}
	check.Eventually(t, func() bool { return strings.Contains(f.get(instancePage("y")), "waits for an event") },
		"the page says that the workflow waits")
}

// Entities and their messages, versions, and work that no worker takes: here, the entities.
func TestEntityPages(t *testing.T) {
	t.Parallel()
	f := openFlows(t)
	entities := ordersHub + "/entities"
	f.shows(entities, "There are no entities")
	if _, err := f.client.Start(t.Context(), "order", taskhub.StartOptions{InstanceID: "i",
		Version: "v-17"}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.client.Entity(t.Context(), "@counter@x", false); !errors.Is(err, taskhub.ErrEntityNotFound) {
		t.Fatal(err)
	}
	check.OK(t, f.client.SignalEntity(t.Context(), "@counter@x", "add", taskhub.SignalOptions{Input: "1"}))
	check.Eventually(t, func() bool { return strings.Contains(f.get(ordersHub), "no connected worker takes") },
		"the work that nobody takes is not shown")
	f.shows(ordersHub, "counter", "v-17", "Scheduled tasks")
	// What an entity's worker has written.
	storage, err := workers.OpenStorage(f.stack.ConnectionString())
	check.OK(t, err)
	_, err = storage.Tables.NewClient("OrdersEntities").AddEntity(t.Context(), []byte(`{"PartitionKey":"@counter@x",
		"RowKey":"entity","HasState":true,"State":"{\"total\":4142434445}","LastModified":"2026-01-01T00:00:00Z",
		"LastModified@odata.type":"Edm.DateTime","LockedBy":"s","LockOwner":"holder","Epoch":"e","Commit":1}`), nil)
	check.OK(t, err)
	f.shows(entities+"?name=counter", "counter", "x", "4142434445", "holder", `<td data-label="Waiting messages">1</td>`)
	if page := f.get(entities + "?name=other"); strings.Contains(page, "4142434445") {
		t.Error("the entities of one name include another's")
	}
}

func TestWorkflowActions(t *testing.T) {
	t.Parallel()
	f := openFlows(t)
	f.post(ordersHub, "action", "start", "name", "order", "id", "one", "input", `"tea"`)
	f.becomes("one", "Running")
	f.post(instancePage("one"), "action", "suspend", "reason", "lunch")
	f.becomes("one", "Suspended")
	f.shows(instancePage("one"), "Resume")
	f.post(instancePage("one"), "action", "resume")
	f.becomes("one", "Running")
	f.post(instancePage("one"), "action", "raise", "name", "approved", "data", `"by Ada"`)
	f.becomes("one", "Completed")
	f.shows(instancePage("one"), "by Ada", "Restart")
	f.post(instancePage("one"), "action", "restart")
	f.becomes("one", "Running")
	f.post(instancePage("one"), "action", "terminate")
	f.becomes("one", "Terminated")
	f.post(instancePage("one"), "action", "purge")
	f.shows(ordersHub, "There are no instances")

	f.start("fails", "two", "")
	f.becomes("two", "Failed")
	f.healed.Store(true)
	f.post(instancePage("two"), "action", "rewind")
	f.becomes("two", "Completed")
	f.post(ordersHub, "action", "purge", "status", "Failed")
	f.shows(ordersHub, "two")
	f.post(ordersHub, "action", "purge", "status", "Completed")
	f.shows(ordersHub, "There are no instances")
}

func TestWorkflowActionsAreRefused(t *testing.T) {
	t.Parallel()
	f := openFlows(t)
	f.start("order", "one", "")
	f.becomes("one", "Running")
	for _, c := range []struct {
		path  string
		pairs []string
		want  int
	}{
		{instancePage("one"), []string{"action", "purge"}, 412},
		{instancePage("one"), []string{"action", "rewind"}, 412},
		{instancePage("one"), []string{"action", "restart"}, 409},
		{instancePage("one"), []string{"action", "raise", "name", "approved", "data", "{"}, 400},
		{instancePage("one"), []string{"action", "raise", "name", ""}, 400},
		{instancePage("one"), []string{"action", "dance"}, 400},
		{instancePage("none"), []string{"action", "terminate"}, 404},
		{ordersHub, []string{"action", "start", "name", "order", "id", "one"}, 409},
		{ordersHub, []string{"action", "start", "name", "order", "id", "@counter@a"}, 400},
		{ordersHub, []string{"action", "start", "name", "order", "input", "{"}, 400},
		{ordersHub, []string{"action", "purge", "status", "Running"}, 400},
	} {
		if status, body, _ := f.send(c.path, f.token(), c.pairs...); status != c.want {
			_, body, _ = strings.Cut(body, "<main")
			t.Errorf("%s %q: %d, want %d\n%s", c.path, c.pairs, status, c.want, body)
		}
	}
	f.becomes("one", "Running")
}

// A history that cannot be read does not hide the state of its instance.
func TestUnreadableHistoryIsShown(t *testing.T) {
	t.Parallel()
	f := openFlows(t)
	f.start("order", "one", "")
	check.Eventually(t, func() bool { return strings.Contains(f.get(instancePage("one")), "shelf 7") },
		"the activity does not end")
	f.becomes("one", "Running")
	storage, err := workers.OpenStorage(f.stack.ConnectionString())
	if err != nil {
		t.Fatal(err)
	}
	row := fmt.Appendf(nil, `{"PartitionKey":"one","RowKey":"%016X","Event":"AAAA","Event@odata.type":"Edm.Binary"}`, 1)
	if _, err := storage.Tables.NewClient("OrdersHistory").UpdateEntity(t.Context(), row, nil); err != nil {
		t.Fatal(err)
	}
	f.shows(instancePage("one"), "The history cannot be read", "Running", "Terminate")
}
