package durable_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/microsoft/durabletask-go/task"

	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/lazulitest"
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
	c := h.run(registry(t, map[string]task.Orchestrator{"two": func(ctx *task.OrchestrationContext) (any, error) {
		one, two := ctx.CallActivity("note", task.WithActivityInput("one")),
			ctx.CallActivity("note", task.WithActivityInput("two"))
		if err := one.Await(nil); err != nil {
			return nil, err
		}
		once()
		<-second // Its session is in use while the second result comes.
		return nil, two.Await(nil)
	}}, map[string]task.Activity{"note": func(ctx task.ActivityContext) (any, error) {
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
	id := start(t, c, "two", durable.StartOptions{})
	<-blocked
	check.Eventually(t, func() bool {
		waiting := 0
		for i := range 4 {
			waiting += len(h.account.Messages(fmt.Sprintf("test-control-%02d", i)))
		}
		return waiting == 2 && len(h.account.Messages("test-workitems")) == 0
	}, "both results are messages, and their work items are gone")
	close(second)
	ended(t, c, id, "Completed")
	if ran["one"] != 1 || ran["two"] != 1 {
		t.Errorf("the activities ran %v times", ran)
	}
	h.drained()
}

// drained waits until no queue of the hub has a message.
func (h *hub) drained() {
	h.t.Helper()
	check.Eventually(h.t, func() bool {
		n := len(h.account.Messages("test-workitems"))
		for i := range 4 {
			n += len(h.account.Messages(fmt.Sprintf("test-control-%02d", i)))
		}
		return n == 0
	}, "no message is left")
}
