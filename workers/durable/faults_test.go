package durable_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/durable/hub"
	"github.com/lazuli-storage/lazuli/internal/durable/record"
	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/lazulitest"
	"github.com/lazuli-storage/lazuli/workers/durable"
)

// ledger counts effects by key: an effect that happens twice under one key counts once, one that happens under two keys
// twice.
type ledger struct {
	mu      sync.Mutex
	entries map[string]int
}

func (l *ledger) add(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.entries == nil {
		l.entries = map[string]int{}
	}
	l.entries[key]++
}

// everything uses each kind of step: activities, a timer, an event, a sub-orchestration and a continue-as-new.
func everything(l *ledger) (workflows, activities) {
	return workflows{
			"everything": func(ctx *durable.Context) (any, error) {
				var round int
				if err := ctx.GetInput(&round); err != nil {
					return nil, err
				}
				one, two := ctx.CallActivity("note", durable.WithInput("one")),
					ctx.CallActivity("note", durable.WithInput("two"))
				if err := errors.Join(one.Await(nil), two.Await(nil)); err != nil {
					return nil, err
				}
				if err := ctx.CreateTimer(0).Await(nil); err != nil {
					return nil, err
				}
				if err := ctx.WaitForSingleEvent("go", -1).Await(nil); err != nil {
					return nil, err
				}
				if err := ctx.CallSubOrchestrator("child").Await(nil); err != nil {
					return nil, err
				}
				if round == 0 {
					ctx.ContinueAsNew(1, durable.KeepEvents())
					return nil, nil
				}
				// Both events have been used: a third one would be a copy.
				return nil, ctx.WaitForSingleEvent("go", 0).Await(nil)
			},
			"child": func(ctx *durable.Context) (any, error) {
				return nil, ctx.CallActivity("note", durable.WithInput("child")).Await(nil)
			},
		}, activities{"note": func(ctx activityContext) (any, error) {
			var what string
			if err := ctx.GetInput(&what); err != nil {
				return nil, err
			}
			info, ok := hub.InfoFromContext(ctx)
			if !ok || info.Execution == "" {
				return nil, errors.New("the activity does not know what it is")
			}
			l.add(info.Key())
			return nil, nil
		}}
}

// Each step fails once, at its first, second and later passes; and everything happens once all the same. Faults concern
// the process: these tests are not parallel.
func TestEveryStepCanFail(t *testing.T) {
	lazuli := lazulitest.Start(t)
	points := 0
	for _, point := range fault.Points() {
		if !strings.HasPrefix(string(point), "durable/") || strings.HasPrefix(string(point), "durable/purge") ||
			strings.Contains(string(point), "entity") {
			continue
		}
		points++
		for _, hit := range []int{1, 2, 5} {
			t.Run(fmt.Sprintf("%s@%d", point, hit), func(t *testing.T) {
				h := newHub(t, lazuli, nil)
				if hit == 2 {
					h.withoutExtensions(lazuli)
				}
				h.options.Visibility = time.Second // What a failure hides comes back soon.
				h.options.CacheEvents = []int{0, -1}[hit%2]
				l := &ledger{}
				c := h.run(registry(t, func() workflows { o, _ := everything(l); return o }(),
					func() activities { _, a := everything(l); return a }()))
				plan := fault.NewPlan(fault.Rule{Point: point, On: hit, Do: fault.Fail(fault.ErrInjected)})
				defer fault.Activate(plan)()
				id := "i"
				if _, err := c.Start(t.Context(), "everything", hub.StartOptions{InstanceID: id, Input: "0"}); err != nil {
					// The client cannot know: the message is there, the row is not. Nothing was created.
					if _, err := c.Get(t.Context(), id); !errors.Is(err, record.ErrInstanceNotFound) {
						t.Fatalf("after a start that failed: %v", err)
					}
					start(t, c, "everything", hub.StartOptions{InstanceID: id, Input: "0"})
				}
				for range 2 {
					if err := c.RaiseEvent(t.Context(), id, "go", ""); err != nil {
						t.Fatal(err)
					}
				}
				if i := ended(t, c, id, "Failed"); i.FailureMessage != durable.ErrTimeout.Error() {
					t.Errorf("the workflow failed with %q", i.FailureMessage)
				}
				if len(l.entries) != 6 {
					t.Errorf("the ledger has %v, want 6 keys", l.entries)
				}
				if point != "durable/after-start-message" && plan.Hits(point) < hit && hit < 5 {
					t.Errorf("the step was passed %d times only", plan.Hits(point))
				}
			})
		}
	}
	if points < 10 {
		t.Errorf("%d points were tried", points)
	}
}

// A purge that fails half-way can be repeated.
func TestPurgeCanFail(t *testing.T) {
	lazuli := lazulitest.Start(t)
	for _, point := range []fault.Name{"durable/purge-after-history", "durable/purge-after-payloads"} {
		h := newHub(t, lazuli, nil)
		c := h.run(registry(t, workflows{"fine": func(*durable.Context) (any,
			error) {
			return strings.Repeat("x", 50_000), nil
		}}, nil))
		start(t, c, "fine", hub.StartOptions{InstanceID: "i"})
		ended(t, c, "i", "Completed")
		off := fault.Activate(fault.NewPlan(fault.Rule{Point: point, On: 1, Do: fault.Fail(fault.ErrInjected)}))
		if err := c.Purge(t.Context(), "i"); !errors.Is(err, fault.ErrInjected) {
			t.Errorf("%s: %v", point, err)
		}
		off()
		if err := c.Purge(t.Context(), "i"); err != nil {
			t.Errorf("%s, again: %v", point, err)
		}
		if left := h.rowsOf("i"); len(left) > 0 {
			t.Errorf("%s left %q", point, left)
		}
	}
}

// Owners come and go without a word while workflows run: their messages and leases are taken over, and nothing is lost
// or done twice.
func TestOwnersComeAndGo(t *testing.T) {
	t.Parallel()
	lazuli := lazulitest.Start(t)
	h := newHub(t, lazuli, nil)
	// A step of a busy machine with the race detector must end within this time, or all is done again and again.
	h.options.Visibility = 5 * time.Second
	h.options.MaxOrchestrations, h.options.MaxActivities = 4, 4
	l := &ledger{}
	o, a := everything(l)
	const instances = 12
	c := h.backend().Client()
	for i := range instances {
		id := fmt.Sprint("i", i)
		start(t, c, "everything", hub.StartOptions{InstanceID: id, Input: "0"})
		for range 2 {
			if err := c.RaiseEvent(t.Context(), id, "go", ""); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 3 {
		b := h.backend()
		w := b.NewWorker(registry(t, o, a))
		if err := w.Start(context.Background()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = w.Shutdown(context.Background()) })
		h.breakLeases()
	}
	for i := range instances {
		id := fmt.Sprint("i", i)
		if i := ended(t, c, id, "Failed"); i.FailureMessage != durable.ErrTimeout.Error() {
			t.Errorf("%s failed with %q", id, i.FailureMessage)
		}
		if i%3 == 0 {
			h.breakLeases()
		}
	}
	if len(l.entries) != 6*instances {
		t.Errorf("the ledger has %d keys, want %d", len(l.entries), 6*instances)
	}
}
