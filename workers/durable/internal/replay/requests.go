package replay

import (
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
)

// Input returns the workflow's input, JSON; nil for none.
func (x *Execution) Input() *string { return x.input }

// Now returns the time of the step, which is the same in each replay.
func (x *Execution) Now() time.Time { return x.now }

// Replaying reports whether the function runs through what an earlier step has committed.
func (x *Execution) Replaying() bool { return x.past }

// SetCustomStatus sets what clients see of a workflow that runs.
func (x *Execution) SetCustomStatus(text string) {
	if !x.left { // A deferred function of one that waits does not speak for it.
		x.customStatus = text
	}
}

// ContinueAsNew makes the workflow begin again, with an input that is written as JSON, when the function returns
// without an error. keep hands on the events that nothing has waited for.
func (x *Execution) ContinueAsNew(input any, keep bool) { x.continues = &continuation{input, keep} }

// NewUUID returns an ID that is the same in each replay, and different for each call and execution.
func (x *Execution) NewUUID() uuid.UUID {
	x.uuids++
	name := fmt.Appendf(nil, "%s/%s/uuid %d", x.history.Instance, x.history.Execution, x.uuids)
	return uuid.NewSHA1(uuid.Nil, name)
}

// ask notes an action under the next number, and returns its task. A function that was left asks for nothing: what runs
// then are its deferred functions.
func (x *Execution) ask(a Action) *Task {
	t := &Task{x: x}
	if x.left {
		return t
	}
	a.Number = x.number()
	x.actions[a.Number] = a
	switch a.Kind {
	case Signal, Unlock:
		t.ended = true // Nothing answers them.
	default:
		x.tasks[a.Number] = t
	}
	return t
}

// Activity runs an activity.
func (x *Execution) Activity(name string, input *string) *Task {
	return x.ask(Action{Kind: Activity, Name: name, Input: input})
}

// Workflow runs another workflow, as the instance if that is not empty.
func (x *Execution) Workflow(name, instance string, input *string) *Task {
	return x.ask(Action{Kind: Workflow, Name: name, Instance: instance, Input: input})
}

// Timer ends after d.
func (x *Execution) Timer(d time.Duration) *Task { return x.ask(Action{Kind: Timer, At: x.now.Add(d)}) }

// Event ends with an event of the name. A positive timeout cancels the task, and so does 0 if the event is not there
// yet. Each event ends one task.
func (x *Execution) Event(name string, timeout time.Duration) *Task {
	t := &eventTask{Task{x: x}, eventName(name)}
	named := func(place int) bool { return eventName(x.history.Events[place].Name) == t.name }
	if i := slices.IndexFunc(x.arrived, named); i >= 0 {
		t.finish(&x.history.Events[x.arrived[i]])
		x.arrived = slices.Delete(x.arrived, i, i+1)
		return &t.Task
	}
	cancel := func() {
		t.ended, t.err = true, ErrCanceled
	}
	if timeout == 0 {
		cancel()
		return &t.Task
	}
	x.waiting = append(x.waiting, t)
	if timeout > 0 {
		x.Timer(timeout).then = func() {
			if t.ended {
				return // The event was first.
			}
			cancel()
			x.waiting = slices.DeleteFunc(x.waiting, func(w *eventTask) bool { return w == t })
		}
	}
	return &t.Task
}

// Call runs an operation of an entity.
func (x *Execution) Call(entity, operation string, input *string) *Task {
	return x.ask(Action{Kind: Call, Instance: entity, Name: operation, Input: input})
}

// Signal sends an operation to an entity, which may arrive at a time; zero is at once.
func (x *Execution) Signal(entity, operation string, input *string, at time.Time) {
	x.ask(Action{Kind: Signal, Instance: entity, Name: operation, Input: input, At: at})
}

// Lock begins a critical section, whose number is new in the execution. It ends when all of its entities are locked.
func (x *Execution) Lock(section int, entities []string) *Task {
	return x.ask(Action{Kind: Lock, Section: section, Entities: entities})
}

// Unlock releases an entity of a critical section.
func (x *Execution) Unlock(section int, entity string) {
	x.ask(Action{Kind: Unlock, Section: section, Instance: entity})
}
