package durable_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/durable/hub"
	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/lazulitest"
	"github.com/lazuli-storage/lazuli/workers"
	"github.com/lazuli-storage/lazuli/workers/durable"
)

// The result of an activity goes to its workflow in memory; if the workflow cannot take it soon, it becomes a message,
// and the work item goes.
func TestResultsThatWaitBecomeMessages(t *testing.T) {
	t.Parallel()
	h := newHub(t, lazulitest.Start(t), nil)
	var mu sync.Mutex
	ran := map[string]int{}
	blocked, second := make(chan struct{}), make(chan struct{})
	once := sync.OnceFunc(func() { close(blocked) })
	c := h.run(registry(t, workflows{"two": func(ctx *durable.Context) (any, error) {
		one, two := ctx.CallActivity("note", durable.WithInput("one")),
			ctx.CallActivity("note", durable.WithInput("two"))
		if err := one.Await(nil); err != nil {
			return nil, err
		}
		once()
		<-second // Its session is in use while the second result comes.
		return nil, two.Await(nil)
	}}, activities{"note": func(ctx activityContext) (any, error) {
		var what string
		if err := ctx.GetInput(&what); err != nil {
			return nil, err
		}
		if what == "two" {
			<-blocked
		}
		mu.Lock()
		defer mu.Unlock()
		ran[what]++
		return what, nil
	}}))
	id := start(t, c, "two", hub.StartOptions{})
	<-blocked
	check.Eventually(t, func() bool {
		results := 0
		for i := range 4 {
			for _, text := range h.account.Messages(fmt.Sprintf("test-control-%02d", i)) {
				if strings.Contains(text, `"TaskCompleted"`) {
					results++
				}
			}
		}
		return results == 2 && len(h.account.Messages("test-workitems")) == 0
	}, "both results are messages, and their work items are gone")
	close(second)
	ended(t, c, id, "Completed")
	if ran["one"] != 1 || ran["two"] != 1 {
		t.Errorf("the activities ran %v times", ran)
	}
	h.drained()
}

// cut is a transport that loses its connection.
type cut struct {
	next *http.Client
	off  atomic.Bool
}

// Do implements policy.Transporter.
func (c *cut) Do(r *http.Request) (*http.Response, error) {
	if c.off.Load() {
		return nil, errors.New("the connection is cut")
	}
	return c.next.Do(r)
}

// A process that dies after it has written a result to the history, and before it has sent what follows, leaves the
// work item alone in the queues; another one goes on from there. Faults concern the process: the test is not parallel.
func TestDeathBetweenResultAndWhatFollows(t *testing.T) {
	lazuli := lazulitest.Start(t)
	h := newHub(t, lazuli, nil)
	h.options.Visibility = time.Second
	dead := &cut{next: lazuli.Client()}
	storage, err := workers.OpenStorage(h.account.ConnectionString(), workers.WithTransport(dead))
	check.OK(t, err)
	first := *h
	first.options.Storage = storage
	r := registry(t, workflows{"two": func(ctx *durable.Context) (any, error) {
		if err := ctx.CallActivity("double", durable.WithInput(1)).Await(nil); err != nil {
			return nil, err
		}
		return nil, ctx.CallActivity("double", durable.WithInput(2)).Await(nil)
	}}, activities{"double": func(ctx activityContext) (any, error) {
		check.Eventually(t, func() bool { return h.waiting() == 0 }, "the start message is gone")
		return double(ctx)
	}})
	defer fault.Activate(fault.NewPlan(fault.Rule{Point: "durable/after-commit", On: 2, Do: func(fault.Name) error {
		dead.off.Store(true)
		return fault.ErrInjected
	}}))()
	first.run(r)
	c := h.backend().Client()
	id := start(t, c, "two", hub.StartOptions{})
	check.Eventually(t, dead.off.Load, "the first process is dead")
	h.breakLeases()
	h.run(r)
	ended(t, c, id, "Completed")
	h.drained()
	dead.off.Store(false) // so that the first process stops soon
}

// drained waits until no queue of the hub has a message.
func (h *testHub) drained() {
	h.t.Helper()
	check.Eventually(h.t, func() bool {
		return h.waiting()+len(h.account.Messages("test-workitems")) == 0
	}, "no message is left")
}

// waiting returns the number of messages to instances, hidden ones included.
func (h *testHub) waiting() (n int) {
	for i := range 4 {
		n += len(h.account.Messages(fmt.Sprintf("test-control-%02d", i)))
	}
	return n
}
