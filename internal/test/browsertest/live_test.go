package browsertest

import (
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
	"github.com/chromedp/chromedp"
)

// The page of a queue shows a message that is put while it is open. What a person has open in it stays.
func TestQueuePageIsLive(t *testing.T) {
	b := open(t)
	client, err := azqueue.NewServiceClientFromConnectionString(b.stack.ConnectionString(), nil)
	if err != nil {
		t.Fatal(err)
	}
	queue := client.NewQueueClient("orders")
	put := func(text string) {
		t.Helper()
		if _, err := queue.EnqueueMessage(t.Context(), text, nil); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := queue.Create(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	b.visit(account + "queues/orders")
	b.sees("The queue is empty.")
	b.sees("live.")
	put("one")
	b.sees("1 message: 1 visible")
	b.sees("one")
	b.sees("Put and deleted")
	b.shot("queue-live")
	b.accessible("queue-live")
	// The keyboard reads the chart.
	b.do(chromedp.Focus("svg.chart", chromedp.ByQuery), chromedp.KeyEvent("\ue012")) // arrow left
	b.until(`/\d\d:\d\d: \d+ put/.test(document.querySelector("output").textContent)`, "the values of a chart")
	b.do(chromedp.Blur("svg.chart", chromedp.ByQuery))
	// An open message stays open, and the count beside it goes on.
	b.do(chromedp.Evaluate(`document.querySelector("[data-part=messages] details").open = true`, nil))
	put("two")
	b.sees("2 messages: 2 visible")
	b.until(`document.querySelector("[data-part=messages] details").open`, "the message that is open")
	b.sees("what you point at or use is not replaced")
	b.do(chromedp.Evaluate(`document.querySelector("[data-part=messages] details").open = false`, nil))
	b.sees("two")
	b.button("main", "Pause")
	b.sees("paused")
	// From the message to its trace.
	b.do(chromedp.Evaluate(`document.querySelector("[data-part=messages] details a").click()`, nil))
	b.sees("PutMessage")
	b.accessible("trace")
	b.shot("trace")
}

// Times are those of the browser's zone when a person wants that, and the filters of requests are in the address.
func TestRequestsAreFiltered(t *testing.T) {
	b := open(t)
	b.fill()
	b.visit("/ui/requests?container=photos&status=2xx")
	b.sees("CreateContainer")
	b.until(`!document.body.innerText.includes("OutOfRangeInput")`, "no failed request")
	b.until(`document.querySelector("details.wide").open`, "the filters")
	b.accessible("requests-filtered")
	b.shot("requests-filtered")
	b.button("header", "Local time")
	b.sees("At (local)")
	b.button("header", "Local time")
	b.sees("At (UTC)")
}
