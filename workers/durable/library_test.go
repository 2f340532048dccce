package durable

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/microsoft/durabletask-go/api"
	"github.com/microsoft/durabletask-go/backend"
	"github.com/microsoft/durabletask-go/task"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	"pgregory.net/rapid"

	"github.com/lazuli-storage/lazuli/internal/durable/event"
	"github.com/lazuli-storage/lazuli/internal/durable/hub"
	"github.com/lazuli-storage/lazuli/internal/durable/protocol"
	"github.com/lazuli-storage/lazuli/internal/durable/record"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// Hubs have histories that durabletask-go's own library for workflows has made. A workflow that it has begun goes on
// here: for each of them, both ask for the same things under the same numbers.

// calls is what a workflow can ask for, in either library.
type calls struct {
	activity, child, retried func(name string) Awaiting
	timer                    func(time.Duration) Awaiting
	event                    func(name string, timeout time.Duration) Awaiting
	status                   func(string)
	again                    func(in any)
	now                      func() time.Time
}

// Awaiting is a task of either library.
type Awaiting interface{ Await(v any) error }

func callsHere(c *Context) calls {
	policy := WithRetry(RetryPolicy{MaxAttempts: 3, InitialRetryInterval: 1500 * time.Microsecond,
		BackoffCoefficient: 1.7,
		MaxRetryInterval:   2 * time.Second, RetryTimeout: time.Minute})
	return calls{
		activity: func(name string) Awaiting { return c.CallActivity(name, WithInput(name)) },
		child: func(name string) Awaiting {
			return c.CallSubOrchestrator(name, WithInput(1), WithInstanceID("of "+name))
		},
		retried: func(name string) Awaiting { return c.CallActivity(name, WithInput(2), policy) },
		timer:   func(d time.Duration) Awaiting { return c.CreateTimer(d) },
		event:   func(name string, d time.Duration) Awaiting { return c.WaitForSingleEvent(name, d) },
		status:  c.SetCustomStatus, again: func(in any) { c.ContinueAsNew(in) },
		now: func() time.Time { return c.CurrentTimeUtc },
	}
}

func callsThere(c *task.OrchestrationContext) calls {
	policy := task.WithActivityRetryPolicy(&task.RetryPolicy{MaxAttempts: 3,
		InitialRetryInterval: 1500 * time.Microsecond,
		BackoffCoefficient:   1.7, MaxRetryInterval: 2 * time.Second, RetryTimeout: time.Minute})
	return calls{
		activity: func(name string) Awaiting { return c.CallActivity(name, task.WithActivityInput(name)) },
		child: func(name string) Awaiting {
			return c.CallSubOrchestrator(name, task.WithSubOrchestratorInput(1),
				task.WithSubOrchestrationInstanceID("of "+name))
		},
		retried: func(name string) Awaiting { return c.CallActivity(name, task.WithActivityInput(2), policy) },
		timer:   func(d time.Duration) Awaiting { return c.CreateTimer(d) },
		event:   func(name string, d time.Duration) Awaiting { return c.WaitForSingleEvent(name, d) },
		status:  c.SetCustomStatus, again: func(in any) { c.ContinueAsNew(in) },
		now: func() time.Time { return c.CurrentTimeUtc },
	}
}

// follow runs a program, numbers that choose what it does next, and returns what it has seen.
func follow(program []int, c calls) (any, error) {
	var open []Awaiting
	var seen []string
	for i, n := range program {
		arg := n / 10
		switch n % 10 {
		case 0, 1:
			open = append(open, c.activity(fmt.Sprint("a", arg)))
		case 2:
			open = append(open, c.timer(time.Duration(arg)*time.Second))
		case 3:
			// The library loses an event that has come before the timeout and is awaited after it, and confuses tasks that
			// wait for one name with timeouts.
			timeout := time.Duration(arg%3-1) * time.Minute
			e := c.event(fmt.Sprint("e", i), timeout)
			if timeout <= 0 {
				open = append(open, e)
				continue
			}
			var v int
			seen = append(seen, fmt.Sprint(e.Await(&v), v))
		case 4:
			open = append(open, c.child("w"))
		case 5:
			open = append(open, c.retried("r"))
		case 6:
			c.status(fmt.Sprint(len(seen)))
		case 9:
			if arg == 0 {
				c.again(len(seen))
				return nil, nil
			}
			fallthrough
		default:
			if len(open) == 0 {
				continue
			}
			var v int
			at := arg % len(open)
			err := open[at].Await(&v)
			seen = append(seen, fmt.Sprintf("%d %v %v", v, err, c.now()))
			open = append(open[:at:at], open[at+1:]...)
		}
	}
	return seen, nil
}

func TestHistoriesOfTheLibraryGoOn(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		for range 10 {
			followBoth(t)
		}
	})
}

// followBoth runs a program step by step in both libraries.
func followBoth(t *rapid.T) {
	program := rapid.SliceOfN(rapid.IntRange(0, 59), 1, 14).Draw(t, "program")
	suspends := rapid.Bool().Draw(t, "suspends")
	for i, n := range program {
		if suspends && n%10 == 3 {
			program[i] = 3 // What comes while a workflow is suspended is one event: again one before its timeout may be lost.
		}
	}
	r := task.NewTaskRegistry()
	_ = r.AddOrchestratorN("w", func(c *task.OrchestrationContext) (any, error) { return follow(program, callsThere(c)) })
	there := task.NewTaskExecutor(r)
	here := &goExecutor{workflows: map[string]func(*Context) (any, error){
		"w": func(c *Context) (any, error) { return follow(program, callsHere(c)) }}}
	state := backend.NewOrchestrationRuntimeState("i", nil)
	var pending []*record.Event
	now := time.Unix(1_700_000_000, 0)
	suspended := false
	for step := range rapid.IntRange(1, 8).Draw(t, "steps") {
		now = now.Add(time.Second)
		old := append(append([]*record.Event{}, state.OldEvents()...), state.NewEvents()...)
		state = backend.NewOrchestrationRuntimeState("i", old)
		fresh := []*record.Event{event.New("orchestratorStarted", -1, now)}
		if step == 0 {
			fresh = append(fresh, startedEvent(now))
		}
		if suspends && rapid.IntRange(0, 3).Draw(t, "switch") == 0 {
			kind := map[bool]string{false: "executionSuspended", true: "executionResumed"}[suspended]
			fresh, suspended = append(fresh, event.New(protoreflect.Name(kind), -1, now)), !suspended
		}
		for range rapid.IntRange(0, 3).Draw(t, "events") {
			if rapid.Bool().Draw(t, "raised") {
				e := event.New("eventRaised", -1, now)
				e.GetEventRaised().Name = fmt.Sprint("E", rapid.IntRange(0, len(program)-1).Draw(t, "name"))
				e.GetEventRaised().Input = wrapperspb.String(fmt.Sprint(step))
				fresh = append(fresh, e)
			} else if len(pending) > 0 {
				at := rapid.IntRange(0, len(pending)-1).Draw(t, "task")
				fresh = append(fresh, endOf(pending[at], rapid.Bool().Draw(t, "fails"), now))
				pending = append(pending[:at:at], pending[at+1:]...)
			}
		}
		for _, e := range fresh {
			_ = state.AddEvent(e)
		}
		want := actionsOf(t, there, state)
		got := actionsOf(t, here, state)
		if d := gocmp.Diff(texts(want), texts(got)); d != "" {
			t.Fatalf("step %d (-the library +here): %s", step, d)
		}
		before := len(state.NewEvents())
		if again, err := state.ApplyActions(want.Response.Actions, nil); err != nil || again {
			return // It begins again: the rest is another history.
		}
		for _, e := range state.NewEvents()[before:] {
			if e.GetExecutionCompleted() != nil {
				return
			}
			pending = append(pending, e)
		}
	}
}

func startedEvent(now time.Time) *record.Event {
	e := event.New("executionStarted", -1, now)
	x := e.GetExecutionStarted()
	x.Name, x.Input = "w", wrapperspb.String("1")
	event.Ensure(x, "orchestrationInstance")
	x.OrchestrationInstance.InstanceId, x.OrchestrationInstance.ExecutionId = "i", wrapperspb.String("e")
	return e
}

// endOf returns the event that ends what an event has scheduled.
func endOf(scheduled *record.Event, fails bool, now time.Time) *record.Event {
	task := scheduled.EventId
	result, failure := wrapperspb.String(fmt.Sprint(task)), event.NewFailure("Broken", fmt.Sprint("no ", task))
	child := scheduled.GetSubOrchestrationInstanceCreated() != nil
	switch {
	case scheduled.GetTimerCreated() != nil:
		e := event.New("timerFired", -1, now)
		e.GetTimerFired().TimerId, e.GetTimerFired().FireAt = task, timestamppb.New(now)
		return e
	case child && fails:
		e := event.New("subOrchestrationInstanceFailed", -1, now)
		x := e.GetSubOrchestrationInstanceFailed()
		x.TaskScheduledId, x.FailureDetails = task, failure
		return e
	case child:
		e := event.New("subOrchestrationInstanceCompleted", -1, now)
		x := e.GetSubOrchestrationInstanceCompleted()
		x.TaskScheduledId, x.Result = task, result
		return e
	case fails:
		return hub.ActivityFailed(scheduled, failure)
	}
	return hub.ActivityCompleted(scheduled, []byte(result.Value))
}

// actionsOf runs a step and puts its actions in order.
func actionsOf(t *rapid.T, x backend.Executor, s *backend.OrchestrationRuntimeState) *backend.ExecutionResults {
	r, err := x.ExecuteOrchestrator(t.Context(), api.InstanceID("i"), s.OldEvents(), s.NewEvents())
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(r.Response.Actions, byNumber)
	return r
}

func byNumber[A interface{ GetId() int32 }](a, b A) int { return cmp.Compare(a.GetId(), b.GetId()) }

// texts returns the actions as texts, without the types of failures: the library names types of Go.
func texts(r *backend.ExecutionResults) []string {
	list := []string{"status " + r.Response.CustomStatus.GetValue()}
	for _, a := range r.Response.Actions {
		if d := a.GetCompleteOrchestration().GetFailureDetails(); d != nil {
			d.ErrorType, d.StackTrace, d.InnerFailure = "", nil, nil
		}
		list = append(list, prototext.Format(a))
	}
	return list
}

// The IDs of requests to entities, which stand in histories, are those that every version has given them.
func TestIDsOfRequestsToEntities(t *testing.T) {
	t.Parallel()
	x := &goExecutor{workflows: map[string]func(*Context) (any, error){"w": func(c *Context) (any, error) {
		unlock, err := c.LockEntities("@e@k")
		if err != nil {
			return nil, err
		}
		defer unlock()
		return CallEntity[int](c, "@e@k", "get", nil)
	}}}
	s := backend.NewOrchestrationRuntimeState("i", nil)
	check.OK(t, s.AddEvent(startedEvent(time.Now())))
	ask := func() string {
		t.Helper()
		r, err := x.ExecuteOrchestrator(t.Context(), "i", s.OldEvents(), s.NewEvents())
		check.OK(t, err)
		a := &protocol.OrchestratorAction{}
		text, err := proto.Marshal(r.Response.Actions[0])
		check.OK(t, errors.Join(err, proto.Unmarshal(text, a)))
		m := a.GetSendEntityMessage()
		check.OK(t, s.AddEvent(event.NewExtra(a.Id, time.Now(), func(e *protocol.HistoryEvent) {
			hub.EntityMessage(e,
				m)
		})))
		return cmp.Or(m.GetEntityLockRequested().GetCriticalSectionId(), m.GetEntityOperationCalled().GetRequestId())
	}
	section := "b8d7bdc1-fac5-5177-9e83-1eb002f86b29"
	if got := ask(); got != section {
		t.Errorf("the critical section is %s, want %s", got, section)
	}
	check.OK(t, s.AddEvent(event.NewExtra(-1, time.Now(), func(e *protocol.HistoryEvent) {
		e.EventType = &protocol.HistoryEvent_EntityLockGranted{
			EntityLockGranted: &protocol.EntityLockGrantedEvent{CriticalSectionId: section}}
	})))
	if got, want := ask(), "3ae1d388-d1ce-58f5-ae8d-09497f5a87d0"; got != want {
		t.Errorf("the request is %s, want %s", got, want)
	}
}

// BenchmarkStep runs the last step of a workflow that has called 100 activities, one after the other, here and in the
// library.
func BenchmarkStep(b *testing.B) {
	const activities = 100
	now := time.Unix(1_700_000_000, 0)
	events := []*record.Event{event.New("orchestratorStarted", -1, now), startedEvent(now)}
	for i := range int32(activities) {
		scheduled := event.New("taskScheduled", i, now)
		scheduled.GetTaskScheduled().Name = "a"
		events = append(events, scheduled, event.New("orchestratorStarted", -1, now),
			hub.ActivityCompleted(scheduled, []byte("1")))
	}
	run := func(c calls) (any, error) {
		for range activities {
			if err := c.activity("a").Await(nil); err != nil {
				return nil, err
			}
		}
		return nil, nil
	}
	r := task.NewTaskRegistry()
	_ = r.AddOrchestratorN("w", func(c *task.OrchestrationContext) (any, error) { return run(callsThere(c)) })
	for name, x := range map[string]backend.Executor{"library": task.NewTaskExecutor(r),
		"here": &goExecutor{workflows: map[string]func(*Context) (any, error){
			"w": func(c *Context) (any, error) { return run(callsHere(c)) }}}} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				got, err := x.ExecuteOrchestrator(b.Context(), "i", events, nil)
				if err != nil || len(got.Response.Actions) != 1 {
					b.Fatal(got, err)
				}
			}
		})
	}
}
