package browsertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/server"
	"github.com/lazuli-storage/lazuli/internal/server/admin"
	"github.com/lazuli-storage/lazuli/internal/server/dashboard"
	"github.com/lazuli-storage/lazuli/internal/server/dashboard/requestlog"
	"github.com/lazuli-storage/lazuli/internal/server/events"
	"github.com/lazuli-storage/lazuli/internal/server/testclock"
)

// patience is the time limit of a step: a slow machine must not fail the test.
const patience = 2 * time.Minute

const account = "/ui/accounts/devstoreaccount1/"

// browser is a tab, with cookies and storage of its own, that shows the dashboard of its own server.
type browser struct {
	t     *testing.T
	ctx   context.Context
	base  string
	stack *server.Server
	app   string // the address of a function app

	mu       sync.Mutex
	problems []string // errors on the console
}

// find returns the path of the browser, or skips the test. Where LAZULI_BROWSER does not ask for them, the tests are
// skipped also beside a browser: .ci/run has them once, in .ci/browser, and not a second time in `go test ./...`.
func find(t *testing.T) string {
	t.Helper()
	wanted := os.Getenv("LAZULI_BROWSER")
	if wanted == "" {
		t.Skip("LAZULI_BROWSER is not set; .ci/browser installs a browser and runs the tests")
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if wanted == "required" {
		t.Fatal("there is no Chromium")
	}
	t.Skip("there is no Chromium on this machine; .ci/browser installs one")
	return ""
}

// process is the browser that all tests share. Starting one takes as much time as a test.
type process struct {
	ctx  context.Context
	stop func()
	err  error
}

var shared struct {
	sync.Mutex
	process *process
}

// startBrowser starts the browser for the first test that asks.
func startBrowser(program string) *process {
	shared.Lock()
	defer shared.Unlock()
	if shared.process != nil {
		return shared.process
	}
	p := &process{stop: func() {}}
	shared.process = p
	profile, err := os.MkdirTemp("", "lazuli-browser-")
	if err != nil {
		p.err = err
		return p
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.NoSandbox,
		chromedp.DisableGPU, chromedp.WindowSize(1280, 900),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true), chromedp.UserDataDir(profile),
		chromedp.WSURLReadTimeout(patience))
	ctx, cancelProgram := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancelTab := chromedp.NewContext(ctx, chromedp.WithErrorf(func(string, ...any) {}))
	p.ctx, p.err = ctx, chromedp.Run(ctx)
	p.stop = func() {
		_ = chromedp.Cancel(ctx)
		cancelTab()
		cancelProgram()
		_ = os.RemoveAll(profile) // the browser's last process may still write to it
	}
	return p
}

// newTab opens a window with cookies and storage of its own, as in a browser that has just started.
func (p *process) newTab() (target.ID, error) {
	ctx := cdp.WithExecutor(p.ctx, chromedp.FromContext(p.ctx).Browser)
	own, err := target.CreateBrowserContext().WithDisposeOnDetach(true).Do(ctx)
	if err != nil {
		return "", err
	}
	return target.CreateTarget("about:blank").WithBrowserContextID(own).WithNewWindow(true).Do(ctx)
}

func TestMain(m *testing.M) {
	code := m.Run()
	if shared.process != nil {
		shared.process.stop()
	}
	os.Exit(code)
}

func open(t *testing.T) *browser { return openWith(t, auth.Development()) }

// openWith is open for a server with other accounts.
func openWith(t *testing.T, accounts *auth.Accounts) *browser {
	t.Helper()
	program := find(t)
	clock := new(testclock.Clock)
	requests := requestlog.New(clock.Now)
	quiet := slog.New(slog.DiscardHandler)
	s, err := server.Start(server.Config{InMemory: true, Log: quiet, Faults: true, Events: true, Observe: requests.Observe,
		Now: clock.Now, ClientsNow: time.Now, Accounts: accounts})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Stop(context.Background()) })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	app := fakeApp(t)
	ui := dashboard.New(dashboard.Options{Backend: func() dashboard.Backend { return s }, Accounts: accounts,
		Requests: requests, State: true, InMemory: true, Now: clock.Now, Clock: clock,
		Version: "test", Log: quiet, Workflows: workflows(s), FunctionHosts: []string{app}, Workers: fakeWorkers(),
		WorkersAccount: auth.DevelopmentAccount})
	a := admin.Start(l, admin.Options{UI: ui, Log: quiet})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = a.Stop(ctx)
	})
	started := startBrowser(program)
	if started.err != nil {
		t.Fatal(started.err)
	}
	tab, err := started.newTab()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := chromedp.NewContext(started.ctx, chromedp.WithTargetID(tab))
	t.Cleanup(func() { _ = chromedp.Cancel(ctx); cancel() })
	b := &browser{t: t, ctx: ctx, base: "http://" + l.Addr().String(), stack: s, app: app}
	chromedp.ListenTarget(ctx, func(event any) {
		text := ""
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			text = e.ExceptionDetails.Error()
		case *cdplog.EventEntryAdded:
			if e.Entry.Level == cdplog.LevelError {
				text = e.Entry.Text + " " + e.Entry.URL
			}
		}
		if text != "" {
			b.mu.Lock()
			b.problems = append(b.problems, text)
			b.mu.Unlock()
		}
	})
	b.do(cdplog.Enable(), runtime.Enable())
	t.Cleanup(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, p := range b.problems {
			t.Errorf("on the browser's console: %s", p)
		}
	})
	return b
}

// do runs steps with a time limit. A page that is still arriving replaces the nodes that a step has found: the step is
// then repeated, since it fails before it does something to them.
func (b *browser) do(steps ...chromedp.Action) {
	b.t.Helper()
	done := make(chan error, 1)
	go func() {
		var err error
		for _, step := range steps {
			for range 10 {
				err = chromedp.Run(b.ctx, step)
				if err == nil || !strings.Contains(err.Error(), "ode with given id") {
					break
				}
			}
			if err != nil {
				break
			}
		}
		done <- err
	}()
	select {
	case err := <-done:
		if err != nil {
			b.t.Fatal(err)
		}
	case <-time.After(patience):
		var page string
		ctx, cancel := context.WithTimeout(b.ctx, 10*time.Second)
		defer cancel()
		_ = chromedp.Run(ctx, chromedp.Text("body", &page))
		b.t.Fatalf("the page does not get there; it shows:\n%s", page)
	}
}

func (b *browser) visit(path string) { b.t.Helper(); b.do(chromedp.Navigate(b.base + path)) }

// sees waits until the page contains a text, across navigations.
func (b *browser) sees(text string) {
	b.t.Helper()
	quoted, _ := json.Marshal(text)
	b.until("document.body?.innerText.includes("+string(quoted)+")", text)
}

// until waits until an expression is true, across navigations.
func (b *browser) until(expression, what string) {
	b.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(patience); ; {
		var is bool
		if err := chromedp.Run(b.ctx, chromedp.Evaluate("!!("+expression+")", &is)); err == nil && is {
			return
		}
		select {
		case <-tick.C:
		case <-end:
			var page string
			_ = chromedp.Run(b.ctx, chromedp.Text("body", &page))
			b.t.Fatalf("the page does not show %s; it shows:\n%s", what, page)
		}
	}
}

// button clicks the button with a text, below a selector, once it is there: a page that shows its first part may still
// arrive.
func (b *browser) button(within, text string) {
	b.t.Helper()
	quoted, _ := json.Marshal(text)
	button := fmt.Sprintf(
		`[...document.querySelectorAll(%q)].find(e => e.textContent.trim() === %s && e.checkVisibility())`,
		within+" button, "+within+" a, "+within+" summary", quoted)
	b.until(button, fmt.Sprintf("the button %q", text))
	var clicked bool
	b.do(chromedp.Evaluate("(() => { const b = "+button+"; b?.click(); return !!b; })()", &clicked))
	if !clicked {
		b.t.Fatalf("the button %q is gone", text)
	}
}

// confirm accepts the confirmation of a destructive action.
func (b *browser) confirm() {
	b.t.Helper()
	b.until("document.querySelector('dialog[open]') || document.querySelector('main input[name=confirmed]')",
		"the question")
	b.button("body", "Yes")
}

// shot saves a screenshot if LAZULI_SCREENSHOTS is set.
func (b *browser) shot(name string) {
	b.t.Helper()
	dir := os.Getenv("LAZULI_SCREENSHOTS")
	if dir == "" {
		return
	}
	var png []byte
	b.do(chromedp.CaptureScreenshot(&png))
	if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644)); err != nil {
		b.t.Fatal(err)
	}
}

// accessible checks the page with axe-core if LAZULI_AXE is set.
func (b *browser) accessible(name string) {
	b.t.Helper()
	path := os.Getenv("LAZULI_AXE")
	if path == "" {
		return
	}
	axe, err := os.ReadFile(path)
	if err != nil {
		b.t.Fatal(err)
	}
	var report []struct {
		ID, Help string
		Nodes    []struct{ HTML string }
	}
	b.do(chromedp.Evaluate(string(axe)+"\n;true", nil),
		chromedp.Evaluate(
			`axe.run({runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]}).then(r => r.violations.map(v => ({ID: v.id, Help: v.help, Nodes: v.nodes.map(n => ({HTML: n.html}))})))`, &report,
			func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
	for _, v := range report {
		for _, n := range v.Nodes {
			b.t.Errorf("%s: %s: %s: %s", name, v.ID, v.Help, n.HTML)
		}
	}
}

// page opens a page, and makes the checks that apply to all pages.
func (b *browser) page(name, path, text string) {
	b.t.Helper()
	b.visit(path)
	b.sees(text)
	b.accessible(name)
	b.shot(name)
}

// fill stores data for the pages to show.
func (b *browser) fill() {
	b.t.Helper()
	ctx, connection := b.t.Context(), b.stack.ConnectionString()
	blobs, err1 := azblob.NewClientFromConnectionString(connection, nil)
	queues, err2 := azqueue.NewServiceClientFromConnectionString(connection, nil)
	tables, err3 := aztables.NewServiceClientFromConnectionString(connection, nil)
	if err := errors.Join(err1, err2, err3); err != nil {
		b.t.Fatal(err)
	}
	_, err1 = blobs.CreateContainer(ctx, "photos", nil)
	for name, content := range map[string]string{"2026/people.csv": "name,age\nJane,41\n", "notes.txt": "a note",
		"data.json": `{"a":[1,2]}`} {
		_, err := blobs.UploadBuffer(ctx, "photos", name, []byte(content), nil)
		err1 = errors.Join(err1, err)
	}
	for _, name := range []string{"orders", "orders-poison"} {
		_, err := queues.CreateQueue(ctx, name, nil)
		_, err4 := queues.NewQueueClient(name).EnqueueMessage(ctx, "eyJvcmRlciI6MX0=", nil)
		err2 = errors.Join(err2, err, err4)
	}
	_, err3 = tables.CreateTable(ctx, "people", nil)
	for i := range 3 {
		_, err := tables.NewClient("people").AddEntity(ctx,
			fmt.Appendf(nil, `{"PartitionKey":"smith","RowKey":"%d","Name":"Jane","Age":%d}`, i, 40+i), nil)
		err3 = errors.Join(err3, err)
	}
	// fails: the name is too short
	_, err := queues.CreateQueue(policy.WithRetryOptions(ctx, policy.RetryOptions{MaxRetries: -1}), "x", nil)
	if err == nil {
		b.t.Fatal("a queue x was created")
	}
	if err := errors.Join(err1, err2, err3); err != nil {
		b.t.Fatal(err)
	}
}

// subscribe makes a subscription that has delivered an event to a queue, and one whose endpoint does not exist any
// more.
func (b *browser) subscribe() {
	b.t.Helper()
	types := []string{"Lazuli.Storage.MessagePut", "Lazuli.Storage.EntityInserted"}
	for _, s := range []events.Subscription{
		{Name: "orders", Endpoint: "orders", IncludedEventTypes: types},
		{Name: "lost", Endpoint: "gone", IncludedEventTypes: types, MaxDeliveryAttempts: 1},
	} {
		s.Account, s.EndpointType, s.DeliverySchema = auth.DevelopmentAccount, events.StorageQueue, events.CloudEvents
		queues, err := azqueue.NewServiceClientFromConnectionString(b.stack.ConnectionString(), nil)
		if err == nil {
			_, err = queues.CreateQueue(b.t.Context(), s.Endpoint, nil)
		}
		if err == nil {
			_, err = b.stack.Events().Add(b.t.Context(), s)
		}
		if err == nil && s.Name == "lost" {
			_, err = queues.DeleteQueue(b.t.Context(), s.Endpoint, nil)
		}
		if err == nil {
			_, err = queues.NewQueueClient("orders-poison").EnqueueMessage(b.t.Context(), "e30=", nil)
		}
		if err != nil {
			b.t.Fatal(err)
		}
	}
	tables, err := aztables.NewServiceClientFromConnectionString(b.stack.ConnectionString(), nil)
	if err == nil {
		_, err = tables.NewClient("people").AddEntity(b.t.Context(),
			[]byte(`{"PartitionKey":"smith","RowKey":"9","Name":"Joe","Age":4}`), nil)
	}
	if err == nil {
		_, err = b.stack.Events().Flush(b.t.Context())
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// Every page shows the stored data, without errors on the console, and is accessible, also in dark mode and in a narrow
// window.
func TestPages(t *testing.T) {
	b := open(t)
	b.fill()
	b.runWorkflows()
	b.subscribe()
	function := "/ui/functions/" + url.PathEscape(b.app) + "/ship"
	pages := []struct{ name, path, text string }{
		{"home", "/", "Next steps"},
		{"account", account[:len(account)-1], "Connection string"},
		{"containers", account + "containers", "photos"},
		{"container", account + "containers/photos", "notes.txt"},
		{"container-all", account + "containers/photos?all=1", "2026/people.csv"},
		{"blob-text", account + "blob/photos?name=notes.txt", "a note"},
		{"blob-csv", account + "blob/photos?name=2026/people.csv", "Jane"},
		{"sas", account + "sas?service=blob&resource=photos", "Permissions"},
		{"queues", account + "queues", "orders-poison"},
		{"queue", account + "queues/orders-poison", `{"order":1}`},
		{"tables", account + "tables", "people"},
		{"table", account + "tables/people?filter=Age+gt+40", "TableScan: all entities"},
		{"entity", account + "tables/people/entity?pk=smith&rk=1", "Timestamp"},
		{"partitions", account + "tables/people/partitions", "1 partition with 4 entities"},
		{"hubs", account + "workflows", "Orders"},
		{"hub", account + "workflows/Orders", "order-1"},
		{"instance", account + "workflows/Orders/instance?id=order-1", "shelf 7"},
		{"graph", account + "workflows/Orders/instance?id=family-1", "Parents and children"},
		{"entities", account + "workflows/Orders/entities", "There are no entities"},
		{"schedules", account + "workflows/Orders/schedules", "There are no scheduled tasks"},
		{"search", account + "search", "begin with the text"},
		{"search-results", account + "search?q=smith", "The search is complete."},
		{"search-empty", account + "search?q=o'brien+100%25+gr%C3%B6%C3%9Fe", "Nothing was found."},
		{"events", "/ui/events", "devstoreaccount1/orders"},
		{"functions", "/ui/functions", "queueTrigger"},
		{"function", function, "nothing to ship"},
		{"invocation", function + "/i1", "a line that was logged"},
		{"workers", "/ui/workers", "archive"},
		{"processes", account + "workers", "No process with workers"},
		{"worker", "/ui/workers/archive", "out of reach"},
		{"requests", "/ui/requests", "Live."},
		{"control", "/ui/control", "New rule"},
	}
	for _, p := range pages {
		b.page(p.name, p.path, p.text)
	}
	b.do(emulation.SetEmulatedMedia().WithFeatures(
		[]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}}))
	for _, p := range pages {
		b.page(p.name+"-dark", p.path, p.text)
	}
	b.do(chromedp.EmulateViewport(360, 700))
	for _, p := range pages {
		b.visit(p.path)
		b.sees(p.text)
		b.shot(p.name + "-narrow")
		var wide int
		b.do(chromedp.Evaluate("document.documentElement.scrollWidth", &wide))
		if wide > 360 {
			var widest string
			b.do(chromedp.Evaluate("[...document.querySelectorAll('main *')].filter(e => e.getBoundingClientRect().right > "+
				"360 && !e.closest('.scroll')).map(e => e.outerHTML.slice(0, 100)).join('\\n')", &widest))
			t.Errorf("%s is %d pixels wide in a window of 360: %s", p.name, wide, widest)
		}
	}
}

func TestErrorPage(t *testing.T) {
	b := open(t)
	b.visit("/ui/nothing")
	b.sees("There is no page at this address")
	b.mu.Lock()
	b.problems = nil // the browser logs the status 404
	b.mu.Unlock()
}

func TestBlobActions(t *testing.T) {
	b := open(t)
	b.visit(account + "containers")
	b.do(chromedp.SendKeys("form[method=post] input[name=name]", "photos"))
	b.button("main", "Create")
	b.sees("Created.")
	file := filepath.Join(t.TempDir(), "hello.txt")
	if err := os.WriteFile(file, []byte("hello from a browser"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.do(chromedp.SetUploadFiles("[data-upload] input", []string{file}))
	b.sees("Uploaded.")
	b.button("main", "hello.txt")
	b.sees("hello from a browser")
	b.do(chromedp.SetValue("textarea[name=metadata]", "color: blue"), chromedp.Submit("textarea[name=metadata]"))
	b.sees("Saved.")
	b.button("main", "Take a snapshot")
	b.sees("Created.")
	b.sees("Versions and snapshots")
	b.do(chromedp.Click("input[name=snapshots]"))
	b.button("main", "Delete")
	b.confirm()
	b.sees("Deleted.")
	b.button("main", "Properties of the container")
	b.button("main", "Delete the container")
	b.confirm()
	b.sees("There are no containers")
}

func TestQueueActions(t *testing.T) {
	b := open(t)
	b.fill()
	b.visit(account + "queues/orders-poison")
	b.button("main", "Put a message")
	b.do(chromedp.SendKeys("textarea[name=body]", "another"))
	b.button("main", "Put")
	b.sees("The message was put.")
	b.sees("2 messages")
	b.button("main", "Requeue")
	b.sees("Messages were requeued.")
	b.button("main", "Delete")
	b.confirm()
	b.sees("The queue is empty.")
	b.button("main", "The queue orders")
	b.sees("2 messages")
}

func TestTableActions(t *testing.T) {
	b := open(t)
	b.fill()
	b.visit(account + "tables/people")
	b.do(chromedp.SendKeys("#filter", "PartitionKey eq 'smith' and RowKey eq '1'"))
	b.sees("PointQuery")
	b.do(chromedp.Evaluate("document.getElementById('filter').value = ''", nil), chromedp.SendKeys("#filter", "Age gt"))
	b.until("document.querySelector('#plan.bad')", "what is wrong with the filter")
	b.button("main", "New entity")
	b.sees("More properties")
	b.do(chromedp.SendKeys("input[name=pk]", "jones"), chromedp.SendKeys("input[name=rk]", "1"),
		chromedp.SendKeys("tbody tr:first-child input", "Age"), chromedp.SetValue("tbody tr:first-child select", "Int64"),
		chromedp.SendKeys("tbody tr:first-child textarea", "7"))
	b.button("main", "More properties")
	b.do(chromedp.WaitVisible("tbody tr:nth-child(4)"))
	b.button("main", "Insert")
	b.sees("Created.")
	b.sees("Int64")
	b.button("main", "jones")
	b.sees("Timestamp")
	b.button("main", "Delete")
	b.confirm()
	b.sees("Deleted.")
}

// A request appears while the page is open. It links to its details, and from there to a matching rule.
func TestRequestBecomesARule(t *testing.T) {
	b := open(t)
	b.visit("/ui/requests")
	b.sees("Live.")
	b.fill()
	b.sees("CreateContainer")
	b.sees("OutOfRangeInput")
	b.button("main", "CreateContainer")
	b.sees("As a command")
	b.shot("request")
	b.accessible("request")
	b.button("main", "As a fault rule")
	b.sees("New rule")
	b.button("main", "Add the rule")
	b.sees("fault-1")
	b.shot("control-rule")
	var rule string
	b.do(chromedp.Text("section table code", &rule))
	if !strings.Contains(rule, `"operation":"CreateContainer"`) || !strings.Contains(rule, `"resource":"photos"`) {
		t.Errorf("the rule is %s", rule)
	}
	b.button("main", "Remove")
	b.sees("There are no rules.")
	b.button("main", "Delete the data")
	b.confirm()
	b.sees("Everything in scope was deleted.")
}

// A subscription is made, flushed and removed on the page of events; wrong input is explained.
func TestEventActions(t *testing.T) {
	b := open(t)
	b.fill()
	b.visit("/ui/events")
	b.sees("There are no subscriptions.")
	b.do(chromedp.SendKeys("input[name=name]", "news"), chromedp.SetValue("select[name=endpointType]", "storagequeue"),
		chromedp.SendKeys("input[name=endpoint]", "orders"),
		chromedp.SetValue("select[name=type]", "Lazuli.Storage.EntityDeleted"))
	b.button("main", "Subscribe")
	b.sees("Subscribed.")
	b.sees("devstoreaccount1/news")
	b.button("main", "Deliver everything now")
	b.sees("Every event so far was delivered")
	b.button("main", "Remove")
	b.confirm()
	b.sees("There are no subscriptions.")
}

// The test clock is set forward on the page of control.
func TestClockActions(t *testing.T) {
	b := open(t)
	b.visit("/ui/control")
	b.do(chromedp.SendKeys("input[name=forward]", "26h"))
	b.button("main", "Set the clock")
	b.sees("The clock was set forward.")
	b.sees("26 h 0 min ahead of the system")
}
