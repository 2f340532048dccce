package browsertest

import (
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/lazuli-storage/lazuli/internal/sdk/hostrow"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/workers"
)

// A function is paused on the page of processes, which shows when the process has confirmed it.
func TestProcessActions(t *testing.T) {
	b := open(t)
	storage, err := workers.OpenStorage(b.stack.ConnectionString())
	check.OK(t, err)
	store := hostrow.Open(storage.Tables)
	p := hostrow.Process{App: "shop-1c2d3e4f", ID: "a", About: "shop v1.2.0, go1.26.1", Machine: "vm", PID: 4711,
		Started: time.Now(), Every: hostrow.Every, Functions: []hostrow.Function{
			{Name: "ship", Trigger: "queueTrigger", Source: "orders", InFlight: 2, Succeeded: 1204, Failed: 3},
			{Name: "order", Trigger: "orchestrationTrigger", Fixed: true}}}
	check.OK(t, store.Beat(t.Context(), p))
	b.page("processes-live", account+"workers", "shop v1.2.0")
	b.button("main", "Pause ship")
	b.sees("It pauses when its processes have read that")
	b.sees("1 pausing")
	p.Functions[0].Paused, p.Functions[0].ByAccount = true, true
	check.OK(t, store.Beat(t.Context(), p))
	b.sees("1 paused") // the page keeps itself current
	b.do(emulation.SetDeviceMetricsOverride(400, 900, 1, false))
	b.accessible("processes-narrow")
	b.shot("processes-narrow")
	b.until("document.documentElement.scrollWidth <= 400", "the page in a narrow window")
	b.button("main", "Resume ship")
	b.sees("1 resuming")
}

// The pointer reads a chart, and a refresh of the page keeps the place to which a person has scrolled.
func TestChartUnderThePointer(t *testing.T) {
	b := open(t)
	client, err := azqueue.NewServiceClientFromConnectionString(b.stack.ConnectionString(), nil)
	check.OK(t, err)
	queue := client.NewQueueClient("orders")
	_, err = queue.Create(t.Context(), nil)
	check.OK(t, err)
	for range 30 {
		_, err = queue.EnqueueMessage(t.Context(), "one", nil)
		check.OK(t, err)
	}
	b.visit(account + "queues/orders")
	b.sees("30 messages: 30 visible")
	const event = `(type, x) => { const svg = document.querySelector("svg.chart"), box = svg.getBoundingClientRect();
		const at = { clientX: box.left + box.width * x, clientY: box.top + 5, bubbles: true };
		svg.dispatchEvent(new PointerEvent(type, at)); }`
	b.do(chromedp.Evaluate("("+event+`)("pointermove", 1)`, nil))
	b.until(`/\d\d:\d\d: 30 put/.test(document.querySelector("output").textContent)`, "the values at the pointer")
	b.do(chromedp.Evaluate("("+event+`)("pointermove", 0)`, nil))
	b.until(`/\d\d:\d\d: 0 put/.test(document.querySelector("output").textContent)`, "the values at the left end")
	b.do(chromedp.Evaluate("("+event+`)("pointerleave", 0)`, nil))
	b.until(`document.querySelector("output").textContent === ""`, "no values without the pointer")
	b.do(chromedp.Evaluate(`window.scrollTo(0, 400)`, nil))
	_, err = queue.EnqueueMessage(t.Context(), "one more", nil)
	check.OK(t, err)
	b.sees("31 messages: 31 visible")
	b.until("window.scrollY === 400", "the place to which the page was scrolled")
}
