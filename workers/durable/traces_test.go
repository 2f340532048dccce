package durable_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"

	"github.com/lazuli-storage/lazuli/internal/azure/longpoll"
	"github.com/lazuli-storage/lazuli/internal/durable/hub"
	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/link"
	"github.com/lazuli-storage/lazuli/lazulitest"
	"github.com/lazuli-storage/lazuli/workers"
	"github.com/lazuli-storage/lazuli/workers/durable"
)

// These tests end a process, or cut its connection, at a moment at which something that follows from a committed step
// is not done yet, and have another process go on from what the first one has left in storage.

// losing is a transport that loses all requests, or those that write rows of Instances.
type losing struct {
	next      *http.Client
	all, rows atomic.Bool
	lost      atomic.Int32
}

// Do implements policy.Transporter.
func (c *losing) Do(r *http.Request) (*http.Response, error) {
	row := r.Method != http.MethodGet && r.Method != http.MethodPost && strings.Contains(r.URL.Path, "/TestInstances")
	if c.all.Load() || c.rows.Load() && row {
		c.lost.Add(1)
		return nil, errors.New("the connection is cut")
	}
	return c.next.Do(r)
}

// newLosing returns a hub like h whose requests a transport can lose.
func (h *testHub) newLosing(lazuli *lazulitest.Lazuli) (*testHub, *losing) {
	h.t.Helper()
	c := &losing{next: lazuli.Client()}
	storage, err := workers.OpenStorage(h.account.ConnectionString(), workers.WithTransport(c))
	check.OK(h.t, err)
	other := *h
	other.options.Storage = storage
	return &other, c
}

func waits(ctx *durable.Context) (any, error) {
	return nil, ctx.WaitForSingleEvent("go", -1).Await(nil)
}

// A process dies before it has written the row of a workflow that waits: the row says after all that it runs.
func TestDeathBeforeTheRow(t *testing.T) {
	t.Parallel()
	lazuli := lazulitest.Start(t)
	h := newHub(t, lazuli, nil)
	h.options.Visibility = time.Second
	first, transport := h.newLosing(lazuli)
	transport.rows.Store(true)
	r := registry(t, workflows{"waits": waits}, nil)
	first.run(r)
	c := h.backend().Client()
	id := start(t, c, "waits", hub.StartOptions{})
	check.Eventually(t, func() bool { return transport.lost.Load() > 0 }, "the row is to be written")
	transport.all.Store(true)
	h.breakLeases()
	h.run(r)
	check.Eventually(t, func() bool {
		i, err := c.Get(t.Context(), id)
		return err == nil && i.Status == "Running"
	}, "the row follows the history")
	h.drained()
	transport.all.Store(false) // so that the first process stops soon
	transport.rows.Store(false)
}

// The message that starts an instance appears, and is dropped, before its slow sender has written the row. Faults
// concern the process: the test is not parallel.
func TestStartWhoseSenderIsSlow(t *testing.T) {
	clock := lazulitest.NewClock()
	h := newHub(t, lazulitest.Start(t, lazulitest.WithFakeClock(clock)), clock)
	c := h.run(registry(t, workflows{"fine": func(*durable.Context) (any, error) {
		return nil, nil
	}}, nil))
	defer fault.Activate(fault.NewPlan(fault.Rule{Point: "durable/after-start-message", On: 1,
		Do: func(fault.Name) error {
			check.Eventually(t, func() bool { clock.Advance(10 * time.Second); return h.waiting() == 0 },
				"the message is dropped")
			return nil
		}}))()
	ended(t, c, start(t, c, "fine", hub.StartOptions{}), "Completed")
}

// A workflow is replaced while it has locks: they are released.
func TestLocksOfAReplacedWorkflow(t *testing.T) {
	t.Parallel()
	a := newEntityApp(t, durable.Options{})
	id := hub.EntityID("account", "one")
	durable.Register(a.App, "hold", func(ctx *durable.Context, wait bool) (any, error) {
		unlock, err := ctx.LockEntities(id)
		if err != nil {
			return nil, err
		}
		defer unlock()
		if wait {
			return durable.WaitForEvent[any](ctx, "go", -1)
		}
		return durable.CallEntity[int](ctx, id, "add", 1)
	})
	c := a.run()
	start(t, c, "hold", hub.StartOptions{InstanceID: "holder", Input: "true"})
	check.Eventually(t, func() bool {
		e, err := c.Entity(t.Context(), id, false)
		return err == nil && e.LockedBy != ""
	}, "the entity is locked")
	start(t, c, "hold", hub.StartOptions{InstanceID: "holder", Input: "false", Replace: true, Running: true})
	ended(t, c, "holder", "Completed")
	check.Eventually(t, func() bool {
		e, err := c.Entity(t.Context(), id, false)
		check.OK(t, err)
		return e.LockedBy == "" && e.Backlog == 0
	}, "the entity is free")
}

// A rewind whose process dies after the commit goes on by itself, also in sub-orchestrations, or when it is called
// again. Faults concern the process: the test is not parallel.
func TestRewindIsCutOff(t *testing.T) {
	for name, again := range map[string]bool{"by itself": false, "called again": true} {
		t.Run(name, func(t *testing.T) {
			clock := lazulitest.NewClock()
			h := newHub(t, lazulitest.Start(t, lazulitest.WithFakeClock(clock)), clock)
			var healed atomic.Bool
			c := h.run(registry(t, workflows{
				"parent": func(ctx *durable.Context) (any, error) {
					return nil, ctx.CallSubOrchestrator("child", durable.WithInstanceID("kid")).Await(nil)
				},
				"child": func(ctx *durable.Context) (any, error) { return nil, ctx.CallActivity("bad").Await(nil) },
			}, activities{"bad": func(activityContext) (any, error) {
				if !healed.Load() {
					return nil, errors.New("ill")
				}
				return nil, nil
			}}))
			start(t, c, "parent", hub.StartOptions{InstanceID: "i"})
			ended(t, c, "i", "Failed")
			healed.Store(true)
			off := fault.Activate(fault.NewPlan(fault.Rule{Point: "durable/after-commit", On: 1,
				Do: fault.Fail(fault.ErrInjected)}))
			if err := c.Rewind(t.Context(), "i", "healed"); !errors.Is(err, fault.ErrInjected) {
				t.Fatalf("the rewind: %v", err)
			}
			off()
			if again {
				check.OK(t, c.Rewind(t.Context(), "i", "healed"))
			}
			check.Eventually(t, func() bool {
				i, err := c.Get(t.Context(), "i")
				check.OK(t, err)
				if !again {
					clock.Advance(time.Second)
				}
				return i.Status == "Completed"
			}, "the workflow goes on")
			ended(t, c, "kid", "Completed")
		})
	}
}

// A rewind sends the failed tasks once more, and no signal that has arrived, however long ago.
func TestRewindDoesNotSignalAgain(t *testing.T) {
	t.Parallel()
	a := newEntityApp(t, durable.Options{})
	id := hub.EntityID("account", "one")
	var healed atomic.Bool
	workers.Activity(a.App, "bad", func(_ context.Context, _ any) (any, error) {
		if !healed.Load() {
			return nil, errors.New("ill")
		}
		return nil, nil
	})
	durable.Register(a.App, "adds", func(ctx *durable.Context, _ any) (any, error) {
		if err := ctx.SignalEntity(id, "add", 1); err != nil {
			return nil, err
		}
		if _, err := durable.Call[any](ctx, "bad", nil); err != nil {
			return nil, err
		}
		return durable.CallEntity[int](ctx, id, "add", 1)
	})
	c := a.run()
	start(t, c, "adds", hub.StartOptions{InstanceID: "i"})
	ended(t, c, "i", "Failed")
	check.Eventually(t, func() bool { return stateOf[int](t, c, id) == 1 }, "the signal has arrived")
	// The marks of messages that have arrived are kept for eight days.
	table := a.account.Tables.NewClient("TestEntities")
	pager := table.NewListEntitiesPager(nil)
	for pager.More() {
		page, err := pager.NextPage(t.Context())
		check.OK(t, err)
		for _, text := range page.Entities {
			var e aztables.Entity
			check.OK(t, json.Unmarshal(text, &e))
			if e.RowKey[0] == 's' {
				_, err := table.DeleteEntity(t.Context(), e.PartitionKey, e.RowKey, nil)
				check.OK(t, err)
			}
		}
	}
	healed.Store(true)
	check.OK(t, c.Rewind(t.Context(), "i", ""))
	if i := ended(t, c, "i", "Completed"); i.Output != "2" {
		t.Errorf("the entity has %s, want 2", i.Output)
	}
}

// A process that ends an instance dies after the commit: the parent learns of it. Faults concern the process: the test
// is not parallel.
func TestTerminateNowIsCutOff(t *testing.T) {
	clock := lazulitest.NewClock()
	h := newHub(t, lazulitest.Start(t, lazulitest.WithFakeClock(clock)), clock)
	c := h.run(registry(t, workflows{
		"parent": func(ctx *durable.Context) (any, error) {
			return nil, ctx.CallSubOrchestrator("waits", durable.WithInstanceID("kid")).Await(nil)
		},
		"waits": waits,
	}, nil))
	start(t, c, "parent", hub.StartOptions{InstanceID: "i"})
	check.Eventually(t, func() bool {
		i, err := c.Get(t.Context(), "kid")
		return err == nil && i.Status == "Running"
	}, "the child runs")
	off := fault.Activate(fault.NewPlan(fault.Rule{Point: "durable/after-commit", On: 1,
		Do: fault.Fail(fault.ErrInjected)}))
	if _, err := c.TerminateNow(t.Context(), "kid", "enough"); !errors.Is(err, fault.ErrInjected) {
		t.Fatalf("the end: %v", err)
	}
	off()
	check.Eventually(t, func() bool {
		clock.Advance(time.Second)
		i, err := c.Get(t.Context(), "i")
		check.OK(t, err)
		return i.Status == "Failed"
	}, "the parent learns of it")
	ended(t, c, "kid", "Terminated")
}

// control returns the messages in the control queues, and how many of the queues have a visible one.
func (h *testHub) control() (all []string, visible int) {
	h.t.Helper()
	for i := range 4 {
		name := fmt.Sprintf("test-control-%02d", i)
		all = append(all, h.account.Messages(name)...)
		got, err := h.account.Queues.NewQueueClient(name).PeekMessage(h.t.Context(), nil)
		check.OK(h.t, err)
		visible += len(got.Messages)
	}
	return all, visible
}

// A process stops while it holds a timer that is almost due: another one gets it.
func TestStopWithATimerAtHand(t *testing.T) {
	t.Parallel()
	clock := lazulitest.NewClock()
	h := newHub(t, lazulitest.Start(t, lazulitest.WithFakeClock(clock)), clock)
	r := registry(t, workflows{"sleeps": func(ctx *durable.Context) (any, error) {
		return nil, ctx.CreateTimer(900 * time.Millisecond).Await(nil)
	}}, nil)
	b := h.backend()
	w := b.NewWorker(r)
	check.OK(t, w.Start(t.Context()))
	c := b.Client()
	id := start(t, c, "sleeps", hub.StartOptions{})
	check.Eventually(t, func() bool {
		all, visible := h.control()
		return visible == 0 && len(all) == 1 && strings.Contains(all[0], "TimerFired")
	}, "the timer is received")
	check.OK(t, w.Shutdown(t.Context()))
	h.run(r)
	check.Eventually(t, func() bool {
		clock.Advance(100 * time.Millisecond)
		i, err := c.Get(t.Context(), id)
		check.OK(t, err)
		return i.Status == "Completed"
	}, "the timer fires")
}

// keeping is a transport that keeps the first answer with a timer back until the process stops: until a request ends a
// wait, or releases the lease of a partition.
type keeping struct {
	next     *http.Client
	plain    bool          // the service lets no request wait
	kept     chan struct{} // closed when the answer is kept
	released chan struct{} // closed by the request
	keep     func()
	release  func()
}

func newKeeping(next *http.Client, plain bool) *keeping {
	c := &keeping{next: next, plain: plain, kept: make(chan struct{}), released: make(chan struct{})}
	c.keep = sync.OnceFunc(func() {
		close(c.kept)
		<-c.released
	})
	c.release = sync.OnceFunc(func() { close(c.released) })
	return c
}

// Do implements policy.Transporter.
func (c *keeping) Do(r *http.Request) (*http.Response, error) {
	// The SDK writes this header in small letters, so that Get does not find it.
	action := "x-ms-lease-action"
	if r.Header.Get(longpoll.ReleaseHeader) != "" || slices.Equal(r.Header[action], []string{"release"}) {
		c.release()
	}
	do := c.next.Do
	if c.plain {
		do = link.Plain{Next: c.next}.Do
	}
	answer, err := do(r)
	if err != nil || r.Method != http.MethodGet || r.URL.Query().Has("peekonly") {
		return answer, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, err
	}
	answer.Body = io.NopCloser(bytes.NewReader(text))
	if bytes.Contains(text, []byte("TimerFired")) {
		c.keep()
	}
	if c.plain && r.Context().Err() != nil { // A connection that is cut loses the answer.
		return nil, r.Context().Err()
	}
	return answer, nil
}

// A process stops while the answer with a timer that is almost due is under way: another one gets it, and it does not
// stay with the one that has stopped.
func TestStopWithATimerUnderWay(t *testing.T) {
	t.Parallel()
	for name, plain := range map[string]bool{"in a wait": false, "in a poll": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stopWithATimerUnderWay(t, plain)
		})
	}
}

func stopWithATimerUnderWay(t *testing.T, plain bool) {
	clock := lazulitest.NewClock()
	lazuli := lazulitest.Start(t, lazulitest.WithFakeClock(clock))
	h := newHub(t, lazuli, clock)
	transport := newKeeping(lazuli.Client(), plain)
	storage, err := workers.OpenStorage(h.account.ConnectionString(), workers.WithTransport(transport))
	check.OK(t, err)
	first := *h
	first.options.Storage = storage
	r := registry(t, workflows{"sleeps": func(ctx *durable.Context) (any, error) {
		return nil, ctx.CreateTimer(900 * time.Millisecond).Await(nil)
	}}, nil)
	b := first.backend()
	w := b.NewWorker(r)
	check.OK(t, w.Start(t.Context()))
	c := h.backend().Client()
	id := start(t, c, "sleeps", hub.StartOptions{})
	<-transport.kept
	check.Eventually(t, func() bool { all, _ := h.control(); return len(all) == 1 }, "the start is deleted")
	check.OK(t, w.Shutdown(t.Context()))
	// The clock stands still: the message is given back, and not only left to appear again by itself.
	if all, visible := h.control(); visible != 1 || len(all) != 1 {
		t.Errorf("after the stop %d of the messages %q are visible", visible, all)
	}
	h.run(r)
	check.Eventually(t, func() bool {
		clock.Advance(100 * time.Millisecond)
		i, err := c.Get(t.Context(), id)
		check.OK(t, err)
		return i.Status == "Completed"
	}, "the timer fires")
}
