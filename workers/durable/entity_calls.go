package durable

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/microsoft/durabletask-go/api"
	"github.com/microsoft/durabletask-go/backend"
	"github.com/microsoft/durabletask-go/task"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/lazuli-storage/lazuli/internal/durable/protocol"
)

// The engine's library for workflows in Go has no entities. A message to an entity is an activity with a reserved name
// there, which has no other meaning; goExecutor writes such an activity's events and actions as those of entities, and
// the other way round.

// reserved precedes the names of these activities. No function can have it in its name.
const reserved = "\x00entity "

// Kinds of messages to entities, behind reserved.
const (
	entityCall   = "call"
	entitySignal = "signal"
	entityLock   = "lock"
	entityUnlock = "unlock"
)

// entityRequest is the input of a reserved activity.
type entityRequest struct {
	ID        string          `json:",omitempty"`
	Operation string          `json:",omitempty"`
	Input     json.RawMessage `json:",omitempty"`
	At        time.Time       `json:",omitzero"`
	Lock      int             `json:",omitempty"` // the number of the critical section in the execution
	Entities  []string        `json:",omitempty"`
}

// CallEntity runs an operation of an entity and waits for its result. It returns an error if the operation has failed.
func CallEntity[Out any](ctx *Context, id, operation string, in any) (Out, error) {
	return Await[Out](CallEntityTask(ctx, id, operation, in))
}

// CallEntityTask is [CallEntity] without the waiting: see [WhenAll].
func CallEntityTask(ctx *Context, id, operation string, in any) task.Task {
	input, err := entityInput(in)
	if err == nil {
		err = checkEntityID(id)
	}
	if err != nil {
		return failedTask{err}
	}
	return toEntityTask(ctx, entityCall, entityRequest{ID: id, Operation: operation, Input: input})
}

// SignalEntity sends an operation to an entity and does not wait for it. Signals of one workflow to one entity arrive
// in their order.
func SignalEntity(ctx *Context, id, operation string, in any) error {
	return SignalEntityAt(ctx, id, operation, in, time.Time{})
}

// SignalEntityAt is [SignalEntity] at a time.
func SignalEntityAt(ctx *Context, id, operation string, in any, at time.Time) error {
	input, err := entityInput(in)
	if err == nil {
		err = checkEntityID(id)
	}
	if err == nil {
		toEntityTask(ctx, entitySignal, entityRequest{ID: id, Operation: operation, Input: input, At: at})
	}
	return err
}

// ErrLocked means that the workflow has locked entities already.
var ErrLocked = errors.New("durable: the workflow has locked entities already")

// LockEntities waits until the workflow has all of the entities for itself, 1 to 64, and returns the function that
// releases them, which may be deferred. Until then, they handle the calls of this workflow only; signals and calls of
// others wait. Workflows that lock several entities do not wait for each other: each locks them in the order of their
// IDs. A workflow has one such section at a time, or LockEntities returns ErrLocked. The locks are released when the
// workflow ends, in whatever way.
func LockEntities(ctx *Context, ids ...string) (unlock func(), err error) {
	if len(ids) == 0 || len(ids) > maxLockSet {
		return nil, fmt.Errorf("%w: a lock needs 1 to %d entities", ErrBadRequest, maxLockSet)
	}
	for _, id := range ids {
		if err := checkEntityID(id); err != nil {
			return nil, err
		}
	}
	x := executionInfoOf(ctx)
	if x.locked {
		return nil, ErrLocked
	}
	// The section has a number, and no random ID, so that it is the same in each replay.
	x.locks++
	x.locked = true
	r := entityRequest{Lock: x.locks, Entities: ids}
	if err := toEntityTask(ctx, entityLock, r).Await(nil); err != nil {
		return nil, err
	}
	return func() {
		// A second call must not release a section that was begun since.
		if !x.locked || x.locks != r.Lock || panicking() {
			return
		}
		x.locked = false
		seen := map[string]bool{}
		for _, id := range ids {
			if !seen[id] {
				toEntityTask(ctx, entityUnlock, entityRequest{Lock: r.Lock, ID: id})
			}
			seen[id] = true
		}
	}, nil
}

// panicking reports whether the caller is deferred and runs because of a panic: the library leaves a workflow that has
// to wait by one, and the workflow keeps its locks then.
func panicking() bool {
	var callers [32]uintptr
	// The frames begin behind the function that asks: with gopanic, if a panic has called it.
	frames := runtime.CallersFrames(callers[:runtime.Callers(3, callers[:])])
	for more := true; more; {
		var f runtime.Frame
		if f, more = frames.Next(); f.Function == "runtime.gopanic" {
			return true
		}
	}
	return false
}

// Version returns the version that the workflow was started with; empty without one.
func Version(ctx *Context) string { return executionInfoOf(ctx).version }

// failedTask is a task that has failed before it began.
type failedTask struct{ err error }

// Await implements task.Task.
func (t failedTask) Await(any) error { return t.err }

func entityInput(in any) (json.RawMessage, error) {
	if in == nil {
		return nil, nil
	}
	return json.Marshal(in)
}

func toEntityTask(ctx *Context, kind string, r entityRequest) task.Task {
	return ctx.CallActivity(reserved+kind, task.WithActivityInput(r))
}

// executionInfo is what the library's context of an execution does not have.
type executionInfo struct {
	version string
	locks   int
	locked  bool
}

// executionInfos has an entry for each workflow whose code runs in this process.
var executionInfos sync.Map // from *Context to *executionInfo

func executionInfoOf(ctx *Context) *executionInfo {
	if x, ok := executionInfos.Load(ctx); ok {
		return x.(*executionInfo)
	}
	panic("durable: the context is not one of a workflow that an Engine runs")
}

// goExecutor runs the workflows and entities of an app.
type goExecutor struct {
	backend.Executor
	entities map[string]entityRunner // by name in lower case

	mu       sync.Mutex        // guards the rest
	versions map[string]string // by instance
	failures map[string]error  // of workflows whose step has just ended with one, by instance
}

// entityExecutor is the executor of an app with entities.
type entityExecutor struct {
	backend.Executor
	app *goExecutor
}

var _ EntityExecutor = entityExecutor{}

// informed returns a workflow's function with its executionInfo.
func (x *goExecutor) informed(f task.Orchestrator) task.Orchestrator {
	return func(ctx *Context) (any, error) {
		x.mu.Lock()
		version := x.versions[string(ctx.ID)]
		x.mu.Unlock()
		executionInfos.Store(ctx, &executionInfo{version: version})
		defer executionInfos.Delete(ctx)
		result, err := f(ctx)
		if err != nil {
			x.mu.Lock()
			x.failures[string(ctx.ID)] = err
			x.mu.Unlock()
		}
		return result, err
	}
}

// ExecuteOrchestrator implements backend.Executor.
func (x *goExecutor) ExecuteOrchestrator(ctx context.Context, id api.InstanceID, old,
	fresh []*Event) (*backend.ExecutionResults, error) {
	_, version, _ := WorkflowOf(old, fresh)
	x.mu.Lock()
	x.versions[string(id)] = version
	x.mu.Unlock()
	defer func() {
		x.mu.Lock()
		delete(x.versions, string(id))
		delete(x.failures, string(id))
		x.mu.Unlock()
	}()
	t := entityTranslation{tasks: map[string]int32{}}
	var err error
	// The order matters: t learns from old which task each request is, and fresh has answers to them.
	if old, err = t.events(old); err != nil {
		return nil, err
	}
	if fresh, err = t.events(fresh); err != nil {
		return nil, err
	}
	r, err := x.Executor.ExecuteOrchestrator(ctx, id, old, fresh)
	if err != nil {
		return nil, err
	}
	x.mu.Lock()
	failed := x.failures[string(id)]
	x.mu.Unlock()
	// The library returns them in any order; messages to one entity have one.
	slices.SortFunc(r.Response.Actions, byNumber)
	for _, a := range r.Response.Actions {
		if c := a.GetCompleteOrchestration(); c.GetFailureDetails() != nil && failed != nil {
			c.FailureDetails = failureOf(failed) // The library has its text and the name of its type alone.
		}
		s := a.GetScheduleTask()
		kind, ok := strings.CutPrefix(s.GetName(), reserved)
		if !ok {
			continue
		}
		m, err := t.action(string(id), a.Id, kind, s.GetInput().GetValue())
		if err != nil {
			return failedWith(id, "EntityMessage", err.Error()), nil
		}
		text, err := proto.Marshal(m)
		if err != nil {
			return nil, err
		}
		// The action keeps its number and becomes one of the present protocol, which takeEffects takes out.
		fields := a.ProtoReflect()
		fields.Clear(fields.Descriptor().Fields().ByName("scheduleTask"))
		fields.SetUnknown(protowire.AppendBytes(protowire.AppendTag(nil, entityAction, protowire.BytesType), text))
	}
	return r, nil
}

func byNumber[A interface{ GetId() int32 }](a, b A) int { return cmp.Compare(a.GetId(), b.GetId()) }

// entityTranslation writes the events of one history for the library.
type entityTranslation struct {
	execution string
	tasks     map[string]int32 // the task of a request or critical section
}

// events returns events in which messages of entities are those of activities.
func (t *entityTranslation) events(list []*Event) ([]*Event, error) {
	all, copied := list, false
	for i, e := range list {
		if e.GetExecutionStarted() != nil {
			t.execution = executionOf(e)
		}
		x := extraOf(e)
		if x == nil {
			continue
		}
		n, err := t.event(e, x)
		if err != nil {
			return nil, err
		}
		if n != nil {
			if !copied {
				all, copied = append([]*Event(nil), list...), true
			}
			all[i] = n
		}
	}
	return all, nil
}

// event returns the event of an activity for one of an entity; nil if the workflow's code does not know of it.
func (t *entityTranslation) event(e *Event, x *protocol.HistoryEvent) (*Event, error) {
	at := e.Timestamp.AsTime()
	scheduled := func(request string) *Event {
		if e.EventId < 0 {
			return nil // A release of locks at the end.
		}
		if request != "" {
			t.tasks[request] = e.EventId
		}
		s := newEvent("taskScheduled", e.EventId, at)
		s.GetTaskScheduled().Name = reserved
		return s
	}
	completed := func(request string, output *wrapperspb.StringValue) *Event {
		c := newEvent("taskCompleted", -1, at)
		c.GetTaskCompleted().TaskScheduledId, c.GetTaskCompleted().Result = t.tasks[request], output
		return c
	}
	switch m := x.EventType.(type) {
	case *protocol.HistoryEvent_EntityOperationSignaled, *protocol.HistoryEvent_EntityUnlockSent:
		return scheduled(""), nil
	case *protocol.HistoryEvent_EntityOperationCalled:
		return scheduled(m.EntityOperationCalled.RequestId), nil
	case *protocol.HistoryEvent_EntityLockRequested:
		return scheduled(m.EntityLockRequested.CriticalSectionId), nil
	case *protocol.HistoryEvent_EntityLockGranted:
		return completed(m.EntityLockGranted.CriticalSectionId, nil), nil
	case *protocol.HistoryEvent_EntityOperationCompleted:
		return completed(m.EntityOperationCompleted.RequestId, m.EntityOperationCompleted.Output), nil
	case *protocol.HistoryEvent_EntityOperationFailed:
		details, err := FailureFromProtocol(m.EntityOperationFailed.FailureDetails)
		if err != nil {
			return nil, err
		}
		f := newEvent("taskFailed", -1, at)
		f.GetTaskFailed().TaskScheduledId = t.tasks[m.EntityOperationFailed.RequestId]
		f.GetTaskFailed().FailureDetails = details
		return f, nil
	}
	return nil, nil
}

// action returns the message to an entity for a reserved activity that a workflow has scheduled as a task.
func (t *entityTranslation) action(instance string, number int32, kind,
	input string) (*protocol.SendEntityMessageAction, error) {
	var r entityRequest
	if err := json.Unmarshal([]byte(input), &r); err != nil {
		return nil, err
	}
	request := t.id(instance, number)
	target := wrapperspb.String(r.ID)
	var text *wrapperspb.StringValue
	if r.Input != nil {
		text = wrapperspb.String(string(r.Input))
	}
	section := t.id(instance, fmt.Sprint("lock ", r.Lock))
	switch kind {
	case entityCall:
		return &protocol.SendEntityMessageAction{EntityMessageType: &protocol.SendEntityMessageAction_EntityOperationCalled{
			EntityOperationCalled: &protocol.EntityOperationCalledEvent{RequestId: request, Operation: r.Operation, Input: text,
				TargetInstanceId: target}}}, nil
	case entitySignal:
		s := &protocol.EntityOperationSignaledEvent{RequestId: request, Operation: r.Operation, Input: text,
			TargetInstanceId: target}
		if !r.At.IsZero() {
			s.ScheduledTime = timestamppb.New(r.At)
		}
		return &protocol.SendEntityMessageAction{
			EntityMessageType: &protocol.SendEntityMessageAction_EntityOperationSignaled{EntityOperationSignaled: s}}, nil
	case entityLock:
		return &protocol.SendEntityMessageAction{EntityMessageType: &protocol.SendEntityMessageAction_EntityLockRequested{
			EntityLockRequested: &protocol.EntityLockRequestedEvent{CriticalSectionId: section, LockSet: r.Entities}}}, nil
	case entityUnlock:
		return &protocol.SendEntityMessageAction{EntityMessageType: &protocol.SendEntityMessageAction_EntityUnlockSent{
			EntityUnlockSent: &protocol.EntityUnlockSentEvent{CriticalSectionId: section, TargetInstanceId: target}}}, nil
	}
	return nil, fmt.Errorf("durable: a message to an entity of the unknown kind %q", kind)
}

// id returns an ID that is the same in each replay of the execution.
func (t *entityTranslation) id(instance string, what any) string {
	return uuid.NewSHA1(uuid.Nil, fmt.Appendf(nil, "%s/%s/%v", instance, t.execution, what)).String()
}

// ExecuteEntity implements EntityExecutor.
func (x entityExecutor) ExecuteEntity(ctx context.Context, batch *EntityBatch) (*EntityResult, error) {
	e := x.app.entities[strings.ToLower(EntityName(batch.ID))]
	if e == nil {
		return &EntityResult{State: batch.State, Failure: NewFailure("EntityNotRegistered",
			fmt.Sprintf("the app has no entity %q", EntityName(batch.ID)))}, nil
	}
	return e.runBatch(ctx, batch)
}
