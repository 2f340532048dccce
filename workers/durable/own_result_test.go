package durable_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
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

// slowPayloads is a transport that holds the first write of a payload until it is let go.
type slowPayloads struct {
	next             *http.Client
	writing, written chan struct{} // closed when the first payload is to be written, and when it is
	letGo            chan struct{}
	began            atomic.Bool
}

// Do implements policy.Transporter.
func (s *slowPayloads) Do(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodPut || !strings.Contains(r.URL.Path, "/test-largemessages/") ||
		s.began.Swap(true) {
		return s.next.Do(r)
	}
	close(s.writing)
	<-s.letGo
	defer close(s.written)
	return s.next.Do(r)
}

// A large result that becomes a message while its workflow continues as new leaves no payload of the execution before,
// whether the payload is written before the rows of that execution are deleted, or after.
func TestResultOfAnEarlierExecutionLeavesNoPayload(t *testing.T) {
	t.Parallel()
	for _, after := range []bool{false, true} {
		t.Run(fmt.Sprintf("written after the cleanup %v", after), func(t *testing.T) {
			t.Parallel()
			lazuli := lazulitest.Start(t)
			h := newHub(t, lazuli, nil)
			s := &slowPayloads{next: lazuli.Client(), writing: make(chan struct{}), written: make(chan struct{}),
				letGo: make(chan struct{})}
			storage, err := workers.OpenStorage(h.account.ConnectionString(), workers.WithTransport(s))
			check.OK(t, err)
			h.options.Storage = storage
			goOn := make(chan struct{})
			c := h.run(registry(t, workflows{"again": func(ctx *durable.Context) (any, error) {
				var n int
				if err := ctx.GetInput(&n); err != nil || n == 0 {
					return nil, errors.Join(err, ctx.WaitForSingleEvent("end", -1).Await(nil))
				}
				if err := ctx.CallActivity("large").Await(nil); err != nil {
					return nil, err
				}
				<-goOn // The workflow has the result, which becomes a message meanwhile.
				ctx.ContinueAsNew(0)
				return nil, nil
			}}, activities{"large": func(activityContext) (any, error) { return strings.Repeat("z", 50_000), nil }}))
			start(t, c, "again", hub.StartOptions{InstanceID: "i", Input: "1"})
			<-s.writing
			want := []string{"TestInstances", "TestHistory", "TestHistory", "TestHistory"} // two events and the sentinel
			continued := func() bool {
				return check.Must(c.Get(t.Context(), "i"))(t).Input == "0" && slices.Equal(h.rowsOf("i"), want)
			}
			if after {
				close(goOn)
				check.Eventually(t, continued, "the execution before is deleted")
				close(s.letGo)
				<-s.written
			} else {
				close(s.letGo)
				<-s.written
				check.Eventually(t, func() bool { return h.waiting() > 0 }, "the result is a message")
				close(goOn)
			}
			check.Eventually(t, func() bool { return h.waiting() == 0 && continued() },
				"nothing is left of the execution before")
		})
	}
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
