package durable_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/lazuli-storage/lazuli/internal/durable/hub"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/lazulitest"
	"github.com/lazuli-storage/lazuli/workers/durable"
)

// A process may die after an activity's result is in the history and before its work item is deleted. The work item is
// then received again, and the activity does not run a second time.
func TestActivityWhoseResultIsInTheHistoryDoesNotRunAgain(t *testing.T) {
	t.Parallel()
	h := newHub(t, lazulitest.Start(t), nil)
	var ran atomic.Int32
	started, finish := make(chan struct{}, 2), make(chan struct{})
	r := registry(t, workflows{"waits": func(ctx *durable.Context) (any, error) {
		if err := ctx.CallActivity("note").Await(nil); err != nil {
			return nil, err
		}
		return nil, ctx.WaitForSingleEvent("go", -1).Await(nil)
	}}, activities{"note": func(activityContext) (any, error) {
		ran.Add(1)
		started <- struct{}{}
		<-finish
		return nil, nil
	}})
	b := h.backend()
	first := b.NewWorker(r)
	check.OK(t, first.Start(context.Background()))
	id := start(t, b.Client(), "waits", hub.StartOptions{})
	<-started
	item := h.account.Messages("test-workitems")
	if len(item) != 1 {
		t.Fatalf("%d work items, want 1", len(item))
	}
	close(finish)
	check.Eventually(t, func() bool {
		events, err := b.Client().History(t.Context(), id)
		check.OK(t, err)
		for _, e := range events {
			if e.GetTaskCompleted() != nil {
				return len(h.account.Messages("test-workitems")) == 0
			}
		}
		return false
	}, "the result is in the history, and its work item is gone")
	check.OK(t, first.Shutdown(context.Background()))

	// The copy has been received once, by a process that is dead.
	queue := h.account.Queues.NewQueueClient("test-workitems")
	_, err := queue.EnqueueMessage(t.Context(), item[0], nil)
	check.OK(t, err)
	got, err := queue.DequeueMessage(t.Context(), nil)
	check.OK(t, err)
	m := got.Messages[0]
	_, err = queue.UpdateMessage(t.Context(), *m.MessageID, *m.PopReceipt, item[0],
		&azqueue.UpdateMessageOptions{VisibilityTimeout: to.Ptr[int32](0)})
	check.OK(t, err)

	c := h.run(r)
	check.Eventually(t, func() bool { return len(h.account.Messages("test-workitems")) == 0 }, "the copy is gone")
	if n := ran.Load(); n != 1 {
		t.Errorf("the activity ran %d times, want once", n)
	}
	check.OK(t, c.RaiseEvent(t.Context(), id, "go", ""))
	ended(t, c, id, "Completed")
}
