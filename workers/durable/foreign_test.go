package durable_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/microsoft/durabletask-go/backend"

	"github.com/lazuli-storage/lazuli/internal/durable/hub"
	"github.com/lazuli-storage/lazuli/internal/durable/record"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/lazulitest"
	"github.com/lazuli-storage/lazuli/workers"
	"github.com/lazuli-storage/lazuli/workers/durable"
)

// strangeIDs are IDs of instances with characters that tables, their clients or this engine treat specially.
var strangeIDs = []string{"o'brien", "50%", "a+b", "100%25", "x^y/z", "''", "%27", "ä&=;"}

// dtfx writes a hub as DTFx has it, with partitions in a table or in blobs.
// https://github.com/Azure/durabletask/tree/main/src/DurableTask.AzureStorage
func dtfx(t *testing.T, s *workers.Storage, hub string, table, empty bool) {
	t.Helper()
	ctx := t.Context()
	insert := func(table string, row map[string]any) {
		t.Helper()
		text, err := json.Marshal(row)
		check.OK(t, err)
		_, err = s.Tables.NewClient(table).AddEntity(ctx, text, nil)
		check.OK(t, err)
	}
	tables := []string{hub + "Instances", hub + "History"}
	lower := strings.ToLower(hub)
	if table {
		tables = append(tables, hub+"Partitions")
	} else {
		_, err := s.Blobs.CreateContainer(ctx, lower+"-leases", nil)
		check.OK(t, err)
		_, err = s.Blobs.UploadBuffer(ctx, lower+"-leases", "taskhub.json",
			[]byte(`{"TaskHubName":"`+hub+`","CreatedAt":"2026-11-28T10:00:00Z","PartitionCount":4}`), nil)
		check.OK(t, err)
	}
	for _, name := range tables {
		_, err := s.Tables.CreateTable(ctx, name, nil)
		check.OK(t, err)
	}
	for i := range 4 {
		_, err := s.Queues.CreateQueue(ctx, fmt.Sprintf("%s-control-%02d", lower, i), nil)
		check.OK(t, err)
	}
	if empty {
		return
	}
	instance := func(id, status, output string) {
		insert(hub+"Instances", map[string]any{"PartitionKey": id, "RowKey": "", "Name": "Order", "ExecutionId": "e2",
			"TaskHubName": hub, "RuntimeStatus": status, "Input": `"tea"`, "Output": output,
			"CreatedTime": "2026-11-28T10:00:00Z", "CreatedTime@odata.type": "Edm.DateTime",
			"LastUpdatedTime": "2026-11-28T10:00:05Z", "LastUpdatedTime@odata.type": "Edm.DateTime"})
	}
	instance("i", "Failed", "Order failed: no money")
	instance("@counter@a", "Running", "")
	for i, id := range strangeIDs {
		key := strings.NewReplacer("^", "^^", "/", "^0").Replace(id)
		instance(key, "Completed", "")
		insert(hub+"History", map[string]any{"PartitionKey": key, "RowKey": "0000000000000000", "ExecutionId": "e2",
			"EventType": "OrchestratorStarted", "EventId": i})
	}
	n := 0
	event := func(execution, kind string, more map[string]any) {
		row := map[string]any{"PartitionKey": "i", "RowKey": fmt.Sprintf("%016X", n), "EventType": kind,
			"ExecutionId": execution, "EventId": n, "_Timestamp": fmt.Sprintf("2026-11-28T10:00:%02dZ", n),
			"_Timestamp@odata.type": "Edm.DateTime"}
		for k, v := range more {
			row[k] = v
		}
		insert(hub+"History", row)
		n++
	}
	failure := `{"ErrorType":"Bank.Declined","ErrorMessage":"no money","StackTrace":"at Bank","InnerFailure":` +
		`{"ErrorType":"System.TimeoutException","ErrorMessage":"late"},"IsNonRetriable":false}`
	event("e2", "OrchestratorStarted", nil)
	event("e2", "ExecutionStarted", map[string]any{"Name": "Order", "Input": `"tea"`})
	event("e2", "TaskScheduled", map[string]any{"Name": "Charge", "Input": `["tea"]`})
	event("e2", "TimerCreated", map[string]any{"FireAt": "2026-11-28T11:00:00Z", "FireAt@odata.type": "Edm.DateTime"})
	event("e2", "TaskFailed", map[string]any{"TaskScheduledId": 2, "Reason": "no money", "FailureDetails": failure})
	event("e2", "ExecutionCompleted", map[string]any{"OrchestrationStatus": "Failed", "FailureDetails": failure})
	event("e1", "TaskScheduled", map[string]any{"Name": "OfAnExecutionBefore"})
	insert(hub+"History", map[string]any{"PartitionKey": "i", "RowKey": "sentinel", "ExecutionId": "e2"})
}

// resources lists what an account has, so that a test sees what was written.
func resources(t *testing.T, s *workers.Storage) (list []string) {
	t.Helper()
	for pages := s.Tables.NewListTablesPager(nil); pages.More(); {
		page, err := pages.NextPage(t.Context())
		check.OK(t, err)
		for _, x := range page.Tables {
			list = append(list, "table "+*x.Name)
		}
	}
	for pages := s.Queues.NewListQueuesPager(nil); pages.More(); {
		page, err := pages.NextPage(t.Context())
		check.OK(t, err)
		for _, x := range page.Queues {
			p, err := s.Queues.NewQueueClient(*x.Name).GetProperties(t.Context(), nil)
			check.OK(t, err)
			list = append(list, fmt.Sprint("queue ", *x.Name, " ", *p.ApproximateMessagesCount))
		}
	}
	for pages := s.Blobs.NewListContainersPager(nil); pages.More(); {
		page, err := pages.NextPage(t.Context())
		check.OK(t, err)
		for _, x := range page.ContainerItems {
			list = append(list, "container "+*x.Name)
			for blobs := s.Blobs.NewListBlobsFlatPager(*x.Name, nil); blobs.More(); {
				page, err := blobs.NextPage(t.Context())
				check.OK(t, err)
				for _, b := range page.Segment.BlobItems {
					list = append(list, "blob "+*b.Name)
				}
			}
		}
	}
	slices.Sort(list)
	return list
}

// A hub of DTFx is recognised in each of its layouts, read, and left as it is.
func TestHubsOfAnotherEngine(t *testing.T) {
	t.Parallel()
	for name, layout := range map[string]struct{ table, empty bool }{"table": {table: true}, "blobs": {},
		"empty table": {true, true}, "empty blobs": {false, true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := lazulitest.Start(t).Account(t)
			dtfx(t, a.Storage, "Shop", layout.table, layout.empty)
			before := resources(t, a.Storage)
			o := hub.Options{Storage: a.Storage, Hub: "Shop", Logger: slog.New(slog.DiscardHandler)}
			ctx := t.Context()
			refused := func(what string, err error) {
				t.Helper()
				if !errors.Is(err, record.ErrForeignHub) || !strings.Contains(err.Error(), "DTFx") {
					t.Errorf("%s: %v", what, err)
				}
			}
			_, err := hub.NewClient(ctx, o)
			refused("a client", err)
			b, err := hub.New(o)
			check.OK(t, err)
			refused("making the hub", b.CreateTaskHub(ctx))
			refused("a start of work", b.Start(ctx))
			refused("deleting the hub", b.DeleteTaskHub(ctx))
			engine := durable.NewEngine(durable.Options{Hub: "Shop"})
			app := workers.New(workers.Config{Storage: a.Storage, Logger: slog.New(slog.DiscardHandler), Durable: engine})
			durable.Register(app, "Order", func(*durable.Context, any) (any, error) { return nil, nil })
			if err := app.Start(ctx); err == nil || !strings.Contains(err.Error(), "DTFx") {
				t.Errorf("an app starts: %v", err)
			}
			r, err := hub.NewReader(ctx, o)
			check.OK(t, err)
			if e := r.Engine(); e != hub.EngineDTFx {
				t.Errorf("the engine is %q", e)
			}
			page, err := r.Query(ctx, hub.Query{Payloads: true})
			check.OK(t, err)
			if layout.empty {
				if len(page.Instances) != 0 {
					t.Errorf("an empty hub has %d instances", len(page.Instances))
				}
			} else {
				readsDTFx(t, r, page)
			}
			if after := resources(t, a.Storage); !slices.Equal(after, before) {
				t.Errorf("the hub was\n%q\nand is\n%q", before, after)
			}
		})
	}
}

func readsDTFx(t *testing.T, r *hub.Reader, page *hub.Page) {
	t.Helper()
	at := slices.IndexFunc(page.Instances, func(i *record.Instance) bool { return i.ID == "i" })
	if len(page.Instances) != 1+len(strangeIDs) || at < 0 || page.Instances[at].Status != "Failed" ||
		page.Instances[at].FailureMessage != "Order failed: no money" {
		t.Errorf("the instances are %+v", page.Instances)
	}
	i, err := r.Get(t.Context(), "i")
	check.OK(t, err)
	if i.Input != `"tea"` || i.FailureType != "Bank.Declined" ||
		i.Failure().InnerFailure.GetErrorType() != "System.TimeoutException" {
		t.Errorf("the instance is %+v", i)
	}
	events, err := r.History(t.Context(), "i")
	check.OK(t, err)
	var got []string
	for _, s := range record.Describe(events) {
		got = append(got, s.Event+" "+s.Name+" "+s.Details)
	}
	want := []string{`ExecutionStarted Order "tea"`, `TaskScheduled Charge ["tea"]`,
		"TimerCreated  until 2026-11-28T11:00:00Z, no longer needed", "TaskFailed  no money",
		"ExecutionCompleted Failed no money"}
	if !slices.Equal(got, want) {
		t.Errorf("the history is %q, want %q", got, want)
	}
	// Names that this engine stores in another form than DTFx, and that a client of tables has to quote.
	for _, id := range strangeIDs {
		if i, err := r.Get(t.Context(), id); err != nil || i.ID != id {
			t.Errorf("%q is %+v, %v", id, i, err)
		}
		if events, err := r.History(t.Context(), id); err != nil || len(events) != 1 {
			t.Errorf("the history of %q is %v, %v", id, events, err)
		}
		page, err := r.Query(t.Context(), hub.Query{Prefix: id})
		if check.OK(t, err); len(page.Instances) != 1 || page.Instances[0].ID != id {
			t.Errorf("the instances that begin with %q are %+v", id, page.Instances)
		}
	}
	if at := record.Describe(events)[1].Time; !at.Equal(time.Date(2026, 11, 28, 10, 0, 2, 0, time.UTC)) {
		t.Errorf("the task was scheduled at %v", at)
	}
}

// Hubs of this engine stay its own without the mark in taskhub.json, which earlier builds did not write.
func TestOwnHubsWithoutAMark(t *testing.T) {
	t.Parallel()
	for _, used := range []bool{false, true} {
		h := newHub(t, lazulitest.Start(t), nil)
		b := h.backend()
		if used {
			start(t, b.Client(), "nothing", hub.StartOptions{InstanceID: "i"})
			done, err := b.Client().TerminateNow(t.Context(), "i", "")
			check.OK(t, err)
			_ = done
		}
		lower := strings.ToLower(h.options.Hub)
		_, err := h.options.Storage.Blobs.UploadBuffer(t.Context(), lower+"-leases", "taskhub.json",
			[]byte(`{"TaskHubName":"`+h.options.Hub+`","CreatedAt":"2026-11-28T10:00:00Z","PartitionCount":4}`), nil)
		check.OK(t, err)
		r, err := hub.NewReader(t.Context(), h.options)
		check.OK(t, err)
		if e := r.Engine(); e != hub.EngineLazuli {
			t.Errorf("used %v: the engine is %q", used, e)
		}
		again, err := hub.New(h.options)
		check.OK(t, err)
		if err := again.CreateTaskHub(t.Context()); !errors.Is(err, backend.ErrTaskHubExists) {
			t.Errorf("used %v: %v", used, err)
		}
	}
	h := newHub(t, lazulitest.Start(t), nil)
	if _, err := hub.NewReader(t.Context(), h.options); !errors.Is(err, record.ErrHubNotFound) {
		t.Errorf("there is no hub to read, and the error is %v", err)
	}
}
