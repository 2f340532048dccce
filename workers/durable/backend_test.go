package durable_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/lease"
	"github.com/google/go-cmp/cmp"
	"github.com/microsoft/durabletask-go/backend"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/lazuli-storage/lazuli/internal/durable/hub"
	"github.com/lazuli-storage/lazuli/internal/durable/protocol"
	"github.com/lazuli-storage/lazuli/internal/durable/record"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/link"
	"github.com/lazuli-storage/lazuli/lazulitest"
	"github.com/lazuli-storage/lazuli/workers"
	"github.com/lazuli-storage/lazuli/workers/durable"
	"github.com/lazuli-storage/lazuli/workers/engine"
)

// testHub is a hub in an account of its own.
type testHub struct {
	t       *testing.T
	account *lazulitest.Account
	options hub.Options
}

func newHub(t *testing.T, lazuli *lazulitest.Lazuli, clock workers.Clock) *testHub {
	account := lazuli.Account(t)
	log := slog.New(slog.DiscardHandler)
	if testing.Verbose() && os.Getenv("DURABLE_LOG") != "" {
		log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	return &testHub{t, account, hub.Options{Storage: account.Storage, Hub: "Test", Clock: clock, Logger: log}}
}

// withoutExtensions makes the hub use the service without extensions of the protocol.
func (h *testHub) withoutExtensions(lazuli *lazulitest.Lazuli) {
	h.t.Helper()
	storage, err := workers.OpenStorage(h.account.ConnectionString(),
		workers.WithTransport(link.Plain{Next: lazuli.Client()}))
	check.OK(h.t, err)
	h.options.Storage = storage
}

// backend returns a backend whose hub exists.
func (h *testHub) backend() *hub.Backend {
	h.t.Helper()
	b, err := hub.New(h.options)
	if err != nil {
		h.t.Fatal(err)
	}
	if err := b.CreateTaskHub(h.t.Context()); err != nil && !errors.Is(err, backend.ErrTaskHubExists) {
		h.t.Fatal(err)
	}
	return b
}

// run starts a worker that the test's end stops, and returns a client.
func (h *testHub) run(r backend.Executor) *hub.Client {
	h.t.Helper()
	b := h.backend()
	w := b.NewWorker(r)
	if err := w.Start(context.Background()); err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() {
		if err := w.Shutdown(context.Background()); err != nil {
			h.t.Error(err)
		}
	})
	return b.Client()
}

// ended waits for an instance and fails the test unless it ends with the status.
func ended(t *testing.T, c *hub.Client, id, status string) *record.Instance {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), check.Patience)
	defer cancel()
	i, err := c.Wait(ctx, id)
	if err != nil {
		t.Fatalf("instance %s: %v; last seen: %+v", id, err, i)
	}
	if i.Status != status {
		t.Fatalf("instance %s is %s, want %s: %+v", id, i.Status, status, i)
	}
	return i
}

func start(t *testing.T, c *hub.Client, name string, o hub.StartOptions) string {
	t.Helper()
	id, err := c.Start(t.Context(), name, o)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// workflows are functions by their names.
type workflows map[string]func(ctx *durable.Context) (any, error)

// activities are functions by their names, whose results are written as JSON.
type activities map[string]func(ctx activityContext) (any, error)

// activityContext is what an activity of a test has.
type activityContext struct {
	context.Context
	input []byte
}

// GetInput decodes the activity's input.
func (c activityContext) GetInput(v any) error { return json.Unmarshal(c.input, v) }

// registry returns an executor of functions.
func registry(t testing.TB, w workflows, a activities) backend.Executor {
	t.Helper()
	handlers := map[string]engine.Activity{}
	for name, f := range a {
		handlers[name] = func(ctx context.Context, input []byte) ([]byte, error) {
			out, err := f(activityContext{ctx, input})
			if err != nil {
				return nil, err
			}
			return json.Marshal(out)
		}
	}
	return durable.NewGoExecutor(w, handlers)
}

// double returns its input, a number, twice.
func double(ctx activityContext) (any, error) {
	var n int
	err := ctx.GetInput(&n)
	return 2 * n, err
}

func fanOut(ctx *durable.Context) (any, error) {
	var n int
	if err := ctx.GetInput(&n); err != nil {
		return nil, err
	}
	var all []durable.Task
	for i := range n {
		all = append(all, ctx.CallActivity("double", durable.WithInput(i)))
	}
	sum := 0
	for _, one := range all {
		var v int
		if err := one.Await(&v); err != nil {
			return nil, err
		}
		sum += v
	}
	return sum, nil
}

// A fan-out of more activities than one batch of history can hold.
func TestFanOut(t *testing.T) {
	t.Parallel()
	h := newHub(t, lazulitest.Start(t), nil)
	c := h.run(registry(t, workflows{"fanOut": fanOut}, activities{"double": double}))
	id := start(t, c, "fanOut", hub.StartOptions{Input: "250"})
	if i := ended(t, c, id, "Completed"); i.Output != "62250" {
		t.Errorf("the output is %s", i.Output)
	}
}

// Two owners that hold the same message of an instance: one commits, the other is refused and sends nothing; at the
// first checkpoint, which makes the sentinel, and at a later one, which replaces it.
func TestDeposedOwnerCannotCommit(t *testing.T) {
	t.Parallel()
	clock := lazulitest.NewClock()
	h := newHub(t, lazulitest.Start(t, lazulitest.WithFakeClock(clock)), clock)
	one, two := h.backend(), h.backend()
	start(t, one.Client(), "one", hub.StartOptions{InstanceID: "i"})

	executor := registry(t, workflows{"one": func(ctx *durable.Context) (any, error) {
		if err := ctx.WaitForSingleEvent("go", -1).Await(nil); err != nil {
			return nil, err
		}
		return nil, ctx.CallActivity("double", durable.WithInput(1)).Await(nil)
	}}, nil)
	process := func(b *hub.Backend) *backend.OrchestrationWorkItem {
		t.Helper()
		wi, err := b.GetOrchestrationWorkItem(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range wi.NewEvents {
			if err := wi.State.AddEvent(e); err != nil {
				t.Fatal(err)
			}
		}
		results, err := executor.ExecuteOrchestrator(t.Context(), wi.InstanceID, wi.State.OldEvents(), wi.State.NewEvents())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := wi.State.ApplyActions(results.Response.Actions, nil); err != nil {
			t.Fatal(err)
		}
		return wi
	}
	for checkpoint, events := range []int{1, 3} { // the start; the start, the event and the task
		if checkpoint == 1 {
			if err := one.Client().RaiseEvent(t.Context(), "i", "go", ""); err != nil {
				t.Fatal(err)
			}
		}
		first := process(one)
		clock.Advance(time.Hour) // The first owner's hold on the message ends; it does not know.
		second := process(two)
		if err := two.CompleteOrchestrationWorkItem(t.Context(), second); err != nil {
			t.Fatal(err)
		}
		if err := one.CompleteOrchestrationWorkItem(t.Context(), first); !errors.Is(err, backend.ErrWorkItemLockLost) {
			t.Fatalf("checkpoint %d of the deposed owner: %v", checkpoint, err)
		}
		if err := one.AbandonOrchestrationWorkItem(t.Context(), first); err != nil {
			t.Fatal(err)
		}
		if n := len(h.account.Messages("test-workitems")); n != checkpoint {
			t.Errorf("after checkpoint %d, %d activities have been sent, want %d", checkpoint, n, checkpoint)
		}
		history, err := one.Client().History(t.Context(), "i")
		if err != nil || len(history) != events {
			t.Errorf("after checkpoint %d, the history has %d events, %v, want %d", checkpoint, len(history), err, events)
		}
	}
}

// rowsOf returns the keys of an instance's rows, and its blobs.
func (h *testHub) rowsOf(id string) (keys []string) {
	h.t.Helper()
	for _, table := range []string{"TestInstances", "TestHistory"} {
		pager := h.account.Tables.NewClient(table).NewListEntitiesPager(
			&aztables.ListEntitiesOptions{Filter: to.Ptr("PartitionKey eq '" + id + "'"), Select: to.Ptr("RowKey")})
		for pager.More() {
			page, err := pager.NextPage(h.t.Context())
			if err != nil {
				h.t.Fatal(err)
			}
			for range page.Entities {
				keys = append(keys, table)
			}
		}
	}
	for pager := h.account.Blobs.NewListBlobsFlatPager("test-largemessages", nil); pager.More(); {
		page, err := pager.NextPage(h.t.Context())
		if err != nil {
			h.t.Fatal(err)
		}
		for _, b := range page.Segment.BlobItems {
			keys = append(keys, "blob "+*b.Name)
		}
	}
	return keys
}

func TestLargePayloadsAreStoredAndCleanedUp(t *testing.T) {
	t.Parallel()
	h := newHub(t, lazulitest.Start(t), nil)
	echo := func(ctx activityContext) (any, error) {
		var s string
		err := ctx.GetInput(&s)
		return s + s, err
	}
	c := h.run(registry(t, workflows{
		"large": func(ctx *durable.Context) (any, error) {
			var s, e string
			if err := ctx.GetInput(&s); err != nil {
				return nil, err
			}
			if len(s) < 1000 {
				return len(s), nil
			}
			if err := ctx.WaitForSingleEvent("more", -1).Await(&e); err != nil {
				return nil, err
			}
			var twice string
			if err := ctx.CallActivity("echo", durable.WithInput(s)).Await(&twice); err != nil {
				return nil, err
			}
			if len(twice) != 200_000 || len(e) != 80_000 {
				return nil, fmt.Errorf("the result has %d bytes, the event %d", len(twice), len(e))
			}
			if strings.HasPrefix(s, "again") {
				ctx.ContinueAsNew("short")
				return nil, nil
			}
			return twice, nil
		}}, activities{"echo": echo}))
	for name, input := range map[string]string{"once": strings.Repeat("é", 50_000),
		"continued": "again" + strings.Repeat("x", 99_995)} {
		start(t, c, "large", hub.StartOptions{InstanceID: name, Input: `"` + input + `"`})
		if err := c.RaiseEvent(t.Context(), name, "more", `"`+strings.Repeat("y", 80_000)+`"`); err != nil {
			t.Fatal(err)
		}
	}
	if i := ended(t, c, "once", "Completed"); len(i.Output) != 200_002 {
		t.Errorf("the output has %d bytes", len(i.Output))
	}
	if i := ended(t, c, "continued", "Completed"); i.Output != "5" {
		t.Errorf("the output is %.20s", i.Output)
	}
	for _, id := range []string{"once", "continued"} {
		if err := c.Purge(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Get(t.Context(), id); !errors.Is(err, record.ErrInstanceNotFound) {
			t.Errorf("%s after its purge: %v", id, err)
		}
	}
	if left := append(h.rowsOf("once"), h.rowsOf("continued")...); len(left) > 0 {
		t.Errorf("the purge left %q", left)
	}
}

// A continue-as-new leaves neither rows nor payloads of the execution before.
func TestContinueAsNewCleansUp(t *testing.T) {
	t.Parallel()
	h := newHub(t, lazulitest.Start(t), nil)
	c := h.run(registry(t, workflows{
		"again": func(ctx *durable.Context) (any, error) {
			var n int
			if err := ctx.GetInput(&n); err != nil {
				return nil, err
			}
			if n == 0 {
				return nil, ctx.WaitForSingleEvent("end", -1).Await(nil)
			}
			for range 3 {
				if err := ctx.CallActivity("blob").Await(nil); err != nil {
					return nil, err
				}
			}
			ctx.ContinueAsNew(n - 1)
			return nil, nil
		}}, activities{"blob": func(activityContext) (any, error) {
		return strings.Repeat("z", 50_000),
			nil
	}}))
	start(t, c, "again", hub.StartOptions{InstanceID: "i", Input: "3"})
	want := []string{"TestInstances", "TestHistory", "TestHistory", "TestHistory"} // two events and the sentinel
	var got []string
	defer func() {
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("rows and blobs (-want +got):\n%s", diff)
		}
	}()
	eventually(t, func() bool {
		i := check.Must(c.Get(t.Context(), "i"))(t)
		got = h.rowsOf("i")
		return i.Input == "0" && cmp.Equal(got, want)
	})
	if err := c.RaiseEvent(t.Context(), "i", "end", ""); err != nil {
		t.Fatal(err)
	}
	ended(t, c, "i", "Completed")
}

// The payload of a result that comes after its execution has ended by continuing as new is deleted.
func TestLateResultLeavesNoPayload(t *testing.T) {
	t.Parallel()
	h := newHub(t, lazulitest.Start(t), nil)
	c := h.run(registry(t, workflows{"waits": func(ctx *durable.Context) (any, error) {
		return nil, ctx.WaitForSingleEvent("end", -1).Await(nil)
	}}, nil))
	id := start(t, c, "waits", hub.StartOptions{InstanceID: "i"})
	_, err := c.WaitStart(t.Context(), id)
	check.OK(t, err)
	event, err := proto.Marshal(&protocol.HistoryEvent{EventId: -1, Timestamp: timestamppb.Now(),
		EventType: &protocol.HistoryEvent_TaskCompleted{TaskCompleted: &protocol.TaskCompletedEvent{TaskScheduledId: 7}}})
	check.OK(t, err)
	const blob = "i/earlier/payload.gz"
	h.account.PutBlob("test-largemessages", blob, "of no use")
	text, err := json.Marshal(map[string]any{"v": 1, "instance": "i", "execution": "earlier", "scheduled": 7,
		"type": "TaskCompleted", "event": event, "blob": blob, "field": "result"})
	check.OK(t, err)
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(id))
	_, err = h.account.Queues.NewQueueClient(fmt.Sprintf("test-control-%02d", hash.Sum32()%4)).
		EnqueueMessage(t.Context(), string(text), nil)
	check.OK(t, err)
	check.Eventually(t, func() bool { return !slices.Contains(h.rowsOf("i"), "blob "+blob) }, "the payload is deleted")
	check.OK(t, c.RaiseEvent(t.Context(), id, "end", ""))
	ended(t, c, id, "Completed")
}

// A timer far beyond the longest delay of a message.
func TestLongTimer(t *testing.T) {
	t.Parallel()
	clock := lazulitest.NewClock()
	began := clock.Now()
	h := newHub(t, lazulitest.Start(t, lazulitest.WithFakeClock(clock)), clock)
	var fired time.Time
	c := h.run(registry(t, workflows{"sleep": func(ctx *durable.Context) (any, error) {
		if err := ctx.CreateTimer(30 * 24 * time.Hour).Await(nil); err != nil {
			return nil, err
		}
		err := ctx.CreateTimer(24 * time.Hour).Await(nil)
		fired = ctx.CurrentTimeUtc
		return nil, err
	}}, nil))
	id := start(t, c, "sleep", hub.StartOptions{})
	check.Eventually(t, func() bool {
		i, err := c.Get(t.Context(), id)
		check.OK(t, err)
		if !i.Done() {
			clock.Advance(12 * time.Hour) // a message stays hidden for seven days at most
		}
		return i.Done()
	}, "the workflow ends")
	ended(t, c, id, "Completed")
	if slept := fired.Sub(began); slept < 31*24*time.Hour {
		t.Errorf("the workflow went on after %v", slept)
	}
}

// A workflow that is to start within the time for which start messages are hidden starts when it is due, not later.
func TestStartSoon(t *testing.T) {
	t.Parallel()
	clock := lazulitest.NewClock()
	h := newHub(t, lazulitest.Start(t, lazulitest.WithFakeClock(clock)), clock)
	began := make(chan time.Time, 1)
	c := h.run(registry(t, workflows{"soon": func(*durable.Context) (any, error) {
		began <- clock.Now()
		return nil, nil
	}}, nil))
	at := clock.Now().Add(1500 * time.Millisecond)
	id := start(t, c, "soon", hub.StartOptions{At: at})
	check.Eventually(t, func() bool {
		if clock.Now().Sub(at) < 5*time.Second { // the clock stops long before a start message that is hidden appears
			clock.Advance(100 * time.Millisecond)
		}
		return len(began) > 0
	}, "the workflow starts")
	if late := (<-began).Sub(at); late < 0 {
		t.Errorf("it started %v before the time", -late)
	}
	ended(t, c, id, "Completed")
}

func TestBadInputFailsItsInstanceOnly(t *testing.T) {
	t.Parallel()
	h := newHub(t, lazulitest.Start(t), nil)
	h.options.MaxPayload, h.options.CacheEvents = 100_000, -1 // Every history is read from its table.
	var mu sync.Mutex
	runs := 0
	c := h.run(registry(t, workflows{
		"fine": func(*durable.Context) (any, error) { return "fine", nil },
		"changing": func(ctx *durable.Context) (any, error) {
			mu.Lock()
			runs++
			first := runs == 1
			mu.Unlock()
			if first {
				return nil, ctx.CallActivity("double", durable.WithInput(1)).Await(nil)
			}
			return nil, ctx.CreateTimer(time.Hour).Await(nil)
		},
		"panics": func(*durable.Context) (any, error) { panic("out of order") },
		"output": func(*durable.Context) (any, error) { return strings.Repeat("x", 200_000), nil },
		"status": func(ctx *durable.Context) (any, error) {
			ctx.SetCustomStatus(strings.Repeat("x", 20_000))
			return nil, nil
		},
		"result":  func(ctx *durable.Context) (any, error) { return nil, ctx.CallActivity("large").Await(nil) },
		"missing": func(ctx *durable.Context) (any, error) { return nil, ctx.CallActivity("none").Await(nil) },
		"child": func(ctx *durable.Context) (any, error) {
			return nil, ctx.CallSubOrchestrator("fine", durable.WithInstanceID("a\x01b")).Await(nil)
		},
		"waits": func(ctx *durable.Context) (any, error) {
			return nil, ctx.WaitForSingleEvent("go", -1).Await(nil)
		},
	}, activities{"double": double,
		"large": func(activityContext) (any, error) { return strings.Repeat("x", 200_000), nil }}))
	for name, says := range map[string]string{
		"unknown": "not registered", "changing": "does not match its history", "panics": "out of order",
		"output": "too large", "status": "custom status",
		"result": "too large", "missing": "no task activity named 'none'", "child": "U+0001",
	} {
		start(t, c, name, hub.StartOptions{InstanceID: "bad-" + name})
		if i := ended(t, c, "bad-"+name, "Failed"); !strings.Contains(i.FailureMessage, says) {
			t.Errorf("%s: the failure says %q, want %q in it", name, i.FailureMessage, says)
		}
	}
	if _, err := c.Start(t.Context(), "fine", hub.StartOptions{Input: strings.Repeat("1", 200_000)}); !errors.Is(err,
		record.ErrTooLarge) {
		t.Errorf("a start with a large input: %v", err)
	}

	start(t, c, "waits", hub.StartOptions{InstanceID: "corrupt"})
	eventually(t, func() bool { i, err := c.Get(t.Context(), "corrupt"); return err == nil && i.Status == "Running" })
	history := h.account.Tables.NewClient("TestHistory")
	if _, err := history.UpdateEntity(t.Context(),
		[]byte(`{"PartitionKey":"corrupt","RowKey":"0000000000000001","Event":"AAAA","Event@odata.type":"Edm.Binary"}`),
		nil); err != nil {
		t.Fatal(err)
	}
	if err := c.RaiseEvent(t.Context(), "corrupt", "go", ""); err != nil {
		t.Fatal(err)
	}
	if i := ended(t, c, "corrupt", "Failed"); !strings.Contains(i.FailureMessage, "0000000000000001") {
		t.Errorf("the failure says %q, want the row in it", i.FailureMessage)
	}
	start(t, c, "fine", hub.StartOptions{InstanceID: "good"})
	ended(t, c, "good", "Completed")
	if poison := h.account.Messages("test-poison"); len(poison) > 0 {
		t.Errorf("messages in the poison queue: %q", poison)
	}
}

func eventually(t *testing.T, done func() bool) {
	t.Helper()
	check.Eventually(t, done, "the orchestration does not get there")
}

// breakLeases takes all partitions from their owners, who do not know.
func (h *testHub) breakLeases() {
	h.t.Helper()
	for i := range 4 {
		b := h.account.Blobs.ServiceClient().NewContainerClient("test-leases").NewBlobClient(
			fmt.Sprintf("default/test-control-%02d", i))
		c, err := lease.NewBlobClient(b, nil)
		if err != nil {
			h.t.Fatal(err)
		}
		if _, err := c.BreakLease(h.t.Context(), &lease.BlobBreakOptions{BreakPeriod: to.Ptr(int32(0))}); err != nil &&
			!bloberror.HasCode(err, bloberror.LeaseNotPresentWithLeaseOperation) {
			h.t.Fatal(err)
		}
	}
}

// IDs have every character of UTF-8 that is neither a control character nor U+FFFE or U+FFFF, and are found by each of
// their beginnings.
func TestCharactersOfIDs(t *testing.T) {
	t.Parallel()
	h := newHub(t, lazulitest.Start(t), nil)
	c := h.run(registry(t, workflows{
		"fine": func(*durable.Context) (any, error) { return nil, nil }}, nil))
	characters := []string{" ", "/", `\`, "#", "?", "'", `"`, "%", "+", "^", "&", "<", "é", "中", "\uD7FF", "\uFFFD", "😀",
		"\U0010FFFF"}
	for _, character := range characters {
		ended(t, c, start(t, c, "fine", hub.StartOptions{InstanceID: "i" + character + "j"}), "Completed")
	}
	for _, character := range characters {
		id := "i" + character + "j"
		page, err := c.Query(t.Context(), hub.Query{Prefix: "i" + character})
		check.OK(t, err)
		if len(page.Instances) != 1 || page.Instances[0].ID != id {
			t.Errorf("the prefix i%s finds %d instances", character, len(page.Instances))
		}
		check.OK(t, c.Purge(t.Context(), id))
	}
	for _, character := range []string{"\x00", "\n", "\u0085", "\uFFFE", "\uFFFF", "\xFF"} {
		if _, err := c.Start(t.Context(), "fine", hub.StartOptions{
			InstanceID: "i" + character}); !errors.Is(err, record.ErrBadInstanceID) {
			t.Errorf("the ID i%q: %v", character, err)
		}
	}
}

func TestQueryPages(t *testing.T) {
	t.Parallel()
	h := newHub(t, lazulitest.Start(t), nil)
	c := h.run(registry(t, workflows{
		"fine":  func(*durable.Context) (any, error) { return nil, nil },
		"fails": func(*durable.Context) (any, error) { return nil, errors.New("no") },
	}, nil))
	for i := range 25 {
		name, status := "fine", "Completed"
		if i%5 == 0 {
			name, status = "fails", "Failed"
		}
		id := start(t, c, name, hub.StartOptions{InstanceID: fmt.Sprintf("a/%02d", i)})
		ended(t, c, id, status)
	}
	start(t, c, "fine", hub.StartOptions{InstanceID: "b"})
	all := func(q hub.Query) (ids []string) {
		t.Helper()
		for {
			page, err := c.Query(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			for _, i := range page.Instances {
				ids = append(ids, i.ID)
			}
			if q.Continuation = page.Continuation; q.Continuation == "" {
				return ids
			}
		}
	}
	if ids := all(hub.Query{Prefix: "a/", Top: 4}); len(ids) != 25 || ids[0] != "a/00" || ids[24] != "a/24" {
		t.Errorf("the instances with the prefix are %q", ids)
	}
	if diff := cmp.Diff([]string{"a/00", "a/05", "a/10", "a/15", "a/20"},
		all(hub.Query{Status: []string{"failed"}, Top: 2})); diff != "" {
		t.Errorf("the failed instances (-want +got):\n%s", diff)
	}
	if ids := all(hub.Query{To: time.Now().Add(-time.Hour)}); len(ids) != 0 {
		t.Errorf("instances of an hour ago: %q", ids)
	}
	if _, err := c.Query(t.Context(), hub.Query{Status: []string{"odd"}}); err == nil {
		t.Error("a status that does not exist was accepted")
	}
	if n, err := c.PurgeAll(t.Context(), hub.Query{Status: []string{"Failed"}}); n != 5 || err != nil {
		t.Errorf("purged %d, %v, want 5", n, err)
	}
}

// A rewind schedules once more what failed, also in a sub-orchestration, and nothing that succeeded.
func TestRewind(t *testing.T) {
	t.Parallel()
	h := newHub(t, lazulitest.Start(t), nil)
	var mu sync.Mutex
	calls, healed := map[string]int{}, false
	c := h.run(registry(t, workflows{
		"parent": func(ctx *durable.Context) (any, error) {
			if err := ctx.CallActivity("good").Await(nil); err != nil {
				return nil, err
			}
			return nil, ctx.CallSubOrchestrator("child", durable.WithInstanceID("kid")).Await(nil)
		},
		"child": func(ctx *durable.Context) (any, error) { return nil, ctx.CallActivity("bad").Await(nil) },
	}, activities{
		"good": func(activityContext) (any, error) {
			mu.Lock()
			defer mu.Unlock()
			calls["good"]++
			return nil, nil
		},
		"bad": func(activityContext) (any, error) {
			mu.Lock()
			defer mu.Unlock()
			calls["bad"]++
			if !healed {
				return nil, errors.New("ill")
			}
			return nil, nil
		},
	}))
	start(t, c, "parent", hub.StartOptions{InstanceID: "i"})
	if i := ended(t, c, "i", "Failed"); !strings.Contains(i.FailureMessage, "ill") {
		t.Errorf("it failed with %q", i.FailureMessage)
	}
	mu.Lock()
	healed = true
	mu.Unlock()
	if err := c.Rewind(t.Context(), "i", "healed"); err != nil {
		t.Fatal(err)
	}
	if i := ended(t, c, "i", "Completed"); i.FailureMessage != "" {
		t.Errorf("it has a failure still: %+v", i)
	}
	if diff := cmp.Diff(map[string]int{"good": 1, "bad": 2}, calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if err := c.Rewind(t.Context(), "i", "again"); !errors.Is(err, record.ErrNotFailed) {
		t.Errorf("a rewind of a completed instance: %v", err)
	}
}
