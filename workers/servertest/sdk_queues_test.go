package servertest

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/lazuli-storage/lazuli/internal/sdk/queuetool"
	"github.com/lazuli-storage/lazuli/internal/test/testaccount"
)

func put(t *testing.T, client *azqueue.QueueClient, bodies ...string) {
	t.Helper()
	for _, b := range bodies {
		if err := queuetool.Put(t.Context(), client, []byte(b), queuetool.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// bodies returns what is visible, sorted.
func bodies(t *testing.T, client *azqueue.QueueClient) []string {
	t.Helper()
	messages, err := queuetool.Peek(context.Background(), client, 32)
	if err != nil {
		t.Fatal(err)
	}
	all := []string{}
	for _, m := range messages {
		all = append(all, m.Body)
	}
	slices.Sort(all)
	return all
}

func want(t *testing.T, client *azqueue.QueueClient, wanted ...string) {
	t.Helper()
	if got := bodies(t, client); !slices.Equal(got, wanted) {
		t.Errorf("visible are %q, want %q", got, wanted)
	}
}

func TestListAndPeekQueues(t *testing.T) {
	t.Parallel()
	a := testaccount.Open(t)
	name, empty := a.Queue("tool-a"), a.Queue("tool-b")
	client := a.Queues.NewQueueClient(name)
	before := time.Now().Add(-2 * time.Second)
	put(t, client, `{"n":1}`, "two")
	if err := queuetool.Put(t.Context(), client, []byte("plain & <simple>"),
		queuetool.PutOptions{Plain: true, TTL: -1}); err != nil {
		t.Fatal(err)
	}
	if err := queuetool.Put(t.Context(), client, []byte("later"),
		queuetool.PutOptions{Delay: time.Hour, TTL: 2 * time.Hour}); err != nil {
		t.Fatal(err)
	}
	got, err := queuetool.List(t.Context(), a.Queues, "tool-")
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || got[0].Name != name || got[0].Messages != 4 || got[0].Oldest.Before(before) ||
		got[1].Name != empty || got[1].Messages != 0 || !got[1].Oldest.IsZero() {
		t.Errorf("queues %+v", got)
	}
	want(t, client, "plain & <simple>", "two", `{"n":1}`)
	messages, err := queuetool.Peek(t.Context(), client, 1)
	if err != nil || len(messages) != 1 || messages[0].ID == "" || messages[0].Attempts != 0 ||
		messages[0].Expires.Before(time.Now()) {
		t.Errorf("peeked %+v, %v", messages, err)
	}
}

func TestDecodeMessage(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"aGVsbG8=":         "hello",
		"eyJuIjoxfQ==":     `{"n":1}`,
		"hello, world":     "hello, world",
		"test":             "test", // Valid base64, but of bytes that are no text.
		"AAECAw==":         "AAECAw==",
		"":                 "",
		"5pel5pys6KqeCg==": "日本語\n",
	} {
		if got := queuetool.Decode(text); got != want {
			t.Errorf("%q decodes to %q, want %q", text, got, want)
		}
	}
}

func TestRequeue(t *testing.T) {
	t.Parallel()
	a := testaccount.Open(t)
	name := a.Queue("work")
	work, poison := a.Queues.NewQueueClient(name), a.Queues.NewQueueClient(name+"-poison")
	if _, err := poison.Create(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	put(t, poison, "order 1", "order 2", "refund 1", "refund 2", "refund 3")
	n, err := queuetool.Requeue(t.Context(), poison, work,
		queuetool.Filter{Match: regexp.MustCompile(`^refund`), Limit: 2}, 0)
	if err != nil || n != 2 {
		t.Errorf("moved %d, %v; want 2", n, err)
	}
	if moved := bodies(t, work); len(moved) != 2 || !slices.ContainsFunc(moved, regexp.MustCompile("refund").MatchString) {
		t.Errorf("moved %q", moved)
	}
	// What was passed over is visible again at once.
	if left := bodies(t, poison); len(left) != 3 || left[0] != "order 1" || left[1] != "order 2" {
		t.Errorf("left %q", left)
	}
	n, err = queuetool.Requeue(t.Context(), poison, work, queuetool.Filter{}, 0)
	if err != nil || n != 3 {
		t.Errorf("moved %d, %v; want 3", n, err)
	}
	want(t, poison)
	want(t, work, "order 1", "order 2", "refund 1", "refund 2", "refund 3")
}

// More messages than one page, most of which are passed over: each is looked at once.
func TestRequeueManyPages(t *testing.T) {
	t.Parallel()
	a := testaccount.Open(t)
	from, to := a.Queues.NewQueueClient(a.Queue("from")), a.Queues.NewQueueClient(a.Queue("to"))
	for i := range 100 {
		put(t, from, fmt.Sprint(i))
	}
	n, err := queuetool.Requeue(t.Context(), from, to, queuetool.Filter{Match: regexp.MustCompile(`^9.$`)}, 0)
	if err != nil || n != 10 {
		t.Errorf("moved %d, %v; want 10", n, err)
	}
	properties, err := from.GetProperties(t.Context(), nil)
	if err != nil || *properties.ApproximateMessagesCount != 90 {
		t.Errorf("%v left, %v; want 90", *properties.ApproximateMessagesCount, err)
	}
}

// Messages that come back while others are moved, as from a worker that fails again, are not moved a second time.
func TestRequeueEnds(t *testing.T) {
	t.Parallel()
	a := testaccount.Open(t)
	q := a.Queues.NewQueueClient(a.Queue("circle"))
	put(t, q, "1", "2", "3")
	n, err := queuetool.Requeue(t.Context(), q, q, queuetool.Filter{}, 0)
	if err != nil || n != 3 {
		t.Errorf("moved %d, %v; want 3", n, err)
	}
	want(t, q, "1", "2", "3")
}

// A target that does not exist: nothing is lost, everything is visible again.
func TestRequeueToNowhere(t *testing.T) {
	t.Parallel()
	a := testaccount.Open(t)
	from := a.Queues.NewQueueClient(a.Queue("from"))
	put(t, from, "a", "b")
	n, err := queuetool.Requeue(t.Context(), from, a.Queues.NewQueueClient("nowhere"), queuetool.Filter{}, 0)
	if err == nil || n != 0 {
		t.Errorf("moved %d, %v", n, err)
	}
	want(t, from, "a", "b")
}

func TestPurge(t *testing.T) {
	t.Parallel()
	a := testaccount.Open(t)
	client := a.Queues.NewQueueClient(a.Queue("purge"))
	put(t, client, "good", "bad 1", "bad 2")
	n, err := queuetool.Purge(t.Context(), client, queuetool.Filter{Match: regexp.MustCompile("bad")})
	if err != nil || n != 2 {
		t.Errorf("purged %d, %v; want 2", n, err)
	}
	want(t, client, "good")
	if _, err := queuetool.Purge(t.Context(), client, queuetool.Filter{}); err != nil {
		t.Error(err)
	}
	want(t, client)
}

// A purge of one message leaves the messages behind it alone.
func TestPurgeOfOneMessage(t *testing.T) {
	t.Parallel()
	a := testaccount.Open(t)
	client := a.Queues.NewQueueClient(a.Queue("one"))
	var bodies []string
	for i := range 40 { // more than a request returns
		bodies = append(bodies, fmt.Sprint(i))
	}
	put(t, client, bodies...)
	messages, err := queuetool.Peek(t.Context(), client, 1)
	if err != nil || len(messages) != 1 {
		t.Fatalf("%v, %v", messages, err)
	}
	if n, err := queuetool.Purge(t.Context(), client, queuetool.Filter{IDs: []string{messages[0].ID}}); n != 1 ||
		err != nil {
		t.Errorf("purged %d, %v", n, err)
	}
	untouched, err := queuetool.Peek(t.Context(), client, 1)
	if err != nil || len(untouched) != 1 || untouched[0].Attempts != 0 {
		t.Errorf("the first message behind is %+v, %v; want one that was never received", untouched, err)
	}
}

func TestOriginOfMessage(t *testing.T) {
	t.Parallel()
	if got, err := queuetool.Origin("orders-poison"); got != "orders" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	for _, name := range []string{"orders", "-poison", "poison"} {
		if got, err := queuetool.Origin(name); err == nil {
			t.Errorf("%q has origin %q", name, got)
		}
	}
}
