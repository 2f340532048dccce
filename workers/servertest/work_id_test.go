package servertest

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/lazuli-storage/lazuli/lazulitest"
	"github.com/lazuli-storage/lazuli/workers"
)

// keeper keeps the headers of requests.
type keeper struct {
	next *http.Client
	mu   sync.Mutex
	seen []http.Header
}

func (k *keeper) Do(r *http.Request) (*http.Response, error) {
	k.mu.Lock()
	k.seen = append(k.seen, r.Header.Clone())
	k.mu.Unlock()
	return k.next.Do(r)
}

// A request of a handler names the invocation and the trace; one outside of a handler does not.
func TestRequestsNameTheirWork(t *testing.T) {
	t.Parallel()
	lazuli := lazulitest.Start(t)
	k := &keeper{next: lazuli.Client()}
	storage, err := workers.OpenStorage(lazuli.ConnectionString(), workers.WithTransport(k))
	if err != nil {
		t.Fatal(err)
	}
	const parent = "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01"
	ctx := workers.NewContext(t.Context(), &workers.InvocationContext{InvocationID: "call-1"})
	for _, ctx := range []context.Context{t.Context(), workers.WithTraceParent(ctx, parent)} {
		if _, err := storage.Queues.CreateQueue(ctx, "orders", nil); err != nil {
			t.Fatal(err)
		}
	}
	if len(k.seen) != 2 {
		t.Fatalf("%d requests", len(k.seen))
	}
	outside, inside := k.seen[0], k.seen[1]
	if strings.Contains(outside.Get("x-ms-client-request-id"), "call") || outside.Get("traceparent") != "" {
		t.Errorf("outside of a handler: %v", outside)
	}
	if inside.Get("x-ms-client-request-id") != "call-1" || inside.Get("traceparent") != parent {
		t.Errorf("in a handler: %v", inside)
	}
}
