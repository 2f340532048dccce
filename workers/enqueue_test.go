package workers_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/link"
	"github.com/lazuli-storage/lazuli/internal/test/ownserver"
	"github.com/lazuli-storage/lazuli/workers"
)

// Calls of Enqueue at the same time share requests. The queue is created when it is missing, and each message has its
// delay and time to live.
func TestEnqueueShares(t *testing.T) {
	t.Parallel()
	l := &link.Link{Next: http.DefaultClient, Method: http.MethodPost}
	storage, err := workers.OpenStorage(ownserver.ConnectionString(), workers.WithTransport(l))
	check.OK(t, err)
	const month = 30 * 24 * time.Hour
	check.OK(t, storage.Enqueue(t.Context(), "created", "first", workers.TimeToLive(month)))
	before := l.Count()
	release := l.Hold() // the first one is under way until all others wait
	var all sync.WaitGroup
	enqueue := func(text string) {
		all.Go(func() {
			if err := storage.Enqueue(t.Context(), "created", text, workers.TimeToLive(month)); err != nil {
				t.Error(err)
			}
		})
	}
	enqueue("alone")
	check.Eventually(t, func() bool { return l.Count() > before }, "a request is under way")
	for i := range 64 {
		enqueue(fmt.Sprint(i))
	}
	check.Eventually(t, func() bool { return storage.Putting("created") == 64 }, "64 calls wait")
	release()
	all.Wait()
	if n := l.Count() - before; n != 1+2 {
		t.Errorf("%d requests for 65 messages, want 3", n)
	}
	q := storage.Queues.NewQueueClient("created")
	for n := 0; n < 66; {
		got, err := q.DequeueMessages(t.Context(), &azqueue.DequeueMessagesOptions{NumberOfMessages: to.Ptr(int32(32))})
		check.OK(t, err)
		if len(got.Messages) == 0 {
			t.Fatalf("the queue has %d messages, want 66", n)
		}
		for _, m := range got.Messages {
			if lives := m.ExpirationTime.Sub(*m.InsertionTime); lives != month {
				t.Errorf("a message lives for %v, want %v", lives, month)
			}
		}
		n += len(got.Messages)
	}
}
