package durable_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/durable/hub"
	"github.com/lazuli-storage/lazuli/lazulitest"
	"github.com/lazuli-storage/lazuli/workers"
	"github.com/lazuli-storage/lazuli/workers/durable"
)

// heldRow holds back the first write that completes an instance's row, until the row was read a number of times
// meanwhile.
type heldRow struct {
	row     string // its address, without the host
	reads   int    // until the write goes on
	release chan struct{}

	mu   sync.Mutex // guards the rest
	held bool
	seen int
}

// Do implements policy.Transporter.
func (h *heldRow) Do(r *http.Request) (*http.Response, error) {
	if !strings.Contains(r.URL.Path, h.row) {
		return http.DefaultClient.Do(r)
	}
	if r.Method == http.MethodGet {
		h.mu.Lock()
		if h.held {
			if h.seen++; h.seen == h.reads {
				close(h.release)
			}
		}
		h.mu.Unlock()
		return http.DefaultClient.Do(r)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	h.mu.Lock()
	first := !h.held && strings.Contains(string(body), "Completed")
	h.held = h.held || first
	h.mu.Unlock()
	if first {
		<-h.release
	}
	return http.DefaultClient.Do(r)
}

// A parent starts its child again under the same ID while the row of the first child does not say yet that it has
// ended: the parent waits, for longer than one checkpoint does.
func TestChildIsStartedAgainBeforeItsRowIsWritten(t *testing.T) {
	t.Parallel()
	h := newHub(t, lazulitest.Start(t), nil)
	held := &heldRow{row: "/TestInstances(PartitionKey='kid'", reads: 8, release: make(chan struct{})}
	storage, err := workers.OpenStorage(h.account.ConnectionString(), workers.WithTransport(held))
	if err != nil {
		t.Fatal(err)
	}
	h.options.Storage = storage
	c := h.run(registry(t, workflows{
		"parent": func(ctx *durable.Context) (any, error) {
			var round int
			if err := ctx.GetInput(&round); err != nil {
				return nil, err
			}
			if err := ctx.CallSubOrchestrator("child", durable.WithInstanceID("kid")).Await(nil); err != nil {
				return nil, err
			}
			if round == 0 {
				ctx.ContinueAsNew(1)
			}
			return round, nil
		},
		"child": func(*durable.Context) (any, error) { return nil, nil },
	}, nil))
	t.Cleanup(func() {
		held.mu.Lock()
		defer held.mu.Unlock()
		if held.seen < held.reads {
			t.Errorf("the child's row was read %d times while its write was held back, want %d", held.seen, held.reads)
			close(held.release)
		}
	})
	start(t, c, "parent", hub.StartOptions{InstanceID: "i", Input: "0"})
	if i := ended(t, c, "i", "Completed"); i.Output != "1" {
		t.Errorf("the output is %s", i.Output)
	}
	ended(t, c, "kid", "Completed")
}
