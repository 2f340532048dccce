package dashboard_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/workers"
)

// The home page counts what an account has, and names poison queues with messages.
func TestHomeCounts(t *testing.T) {
	t.Parallel()
	s := open(t)
	s.post(base+"queues", "action", "create", "name", "orders")
	s.post(base+"queues", "action", "create", "name", "orders-poison")
	s.post(base+"containers", "action", "create", "name", "photos")
	s.shows("/ui/", `data-label="Queues"><a href="`+base+`queues">2</a>`, `data-label="Messages">0<`,
		`data-label="Containers"><a href="`+base+`containers">1</a>`, "no messages")
	s.post(base+"queues/orders-poison", "action", "put", "body", "one", "encoding", "base64")
	s.shows("/ui/", `data-label="Messages">1<`, "orders-poison: 1 message")
}

// What is chosen in a list is deleted, the rest stays; without a choice nothing is.
func TestDeleteChosen(t *testing.T) {
	t.Parallel()
	s := open(t)
	for _, kind := range []string{"queues", "containers", "tables"} {
		for _, name := range []string{"aaa", "bbb", "ccc"} {
			s.post(base+kind, "action", "create", "name", name)
		}
		if status, body, _ := s.send(base+kind, s.token(), "action", "delete"); status != http.StatusBadRequest ||
			!strings.Contains(body, "Nothing is chosen") {
			t.Errorf("%s: %d %s", kind, status, body)
		}
		ask := []string{"action", "delete", "chosen", "aaa", "chosen", "ccc", "ask", "Delete them?"}
		if status, body, _ := s.send(base+kind, s.token(), ask...); status != http.StatusOK ||
			strings.Count(body, `name="chosen"`) != 2 {
			t.Errorf("%s: the question has not what is chosen: %d %s", kind, status, body)
		}
		s.shows(base+kind, "aaa", "bbb", "ccc")
		s.post(base+kind, append(ask, "confirmed", "yes")...)
		s.hides(base+kind, ">aaa<", ">ccc<")
		s.shows(base+kind, ">bbb<")
	}
}

// A message without expiry never expires, and polls of a queue or container that does not exist are no failures.
func TestNeverAndPolls(t *testing.T) {
	t.Parallel()
	s := open(t)
	storage, err := workers.OpenStorage(s.stack.ConnectionString())
	check.OK(t, err)
	s.post(base+"queues", "action", "create", "name", "orders")
	_, err = storage.Queues.NewQueueClient("orders").EnqueueMessage(t.Context(), "text",
		&azqueue.EnqueueMessageOptions{TimeToLive: to.Ptr(int32(-1))})
	check.OK(t, err)
	s.shows(base+"queues/orders", `data-label="Expires">never<`)

	for range 3 {
		_, err = storage.Queues.NewQueueClient("nothing").DequeueMessages(t.Context(), nil)
		check.Code(t, err, "404 QueueNotFound")
	}
	follows := policy.WithHTTPHeader(t.Context(), http.Header{"X-Lazuli-After": {""}}) // as a trigger lists blobs
	_, err = storage.Blobs.NewListBlobsFlatPager("nothing", nil).NextPage(follows)
	check.Code(t, err, "404 ContainerNotFound")
	_, err = storage.Queues.NewQueueClient("nothing").GetProperties(t.Context(), nil)
	check.Code(t, err, "404 QueueNotFound")
	check.Eventually(t, func() bool {
		return strings.Count(s.get("/ui/requests?failed=1&quiet=1"), "<tr data-number=") == 5
	}, "the requests are shown")
	if n := strings.Count(s.get("/ui/requests?failed=1"), "<tr data-number="); n != 1 {
		t.Errorf("%d failed requests, want the one that is no poll", n)
	}
	s.hides("/ui/", "GetMessages")
}
