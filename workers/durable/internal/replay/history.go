package replay

import (
	"time"
)

// History is what has happened to an instance.
type History struct {
	// Instance is the instance's ID, Execution that of the execution: they make what NewUUID returns unique.
	Instance, Execution string
	// Events are those of the execution in their order. The first Past of them were there in an earlier step already.
	Events []Event
	Past   int
}

// Kind says what an event means to a workflow.
type Kind uint8

// Kinds of events.
const (
	// Other has no meaning for the workflow.
	Other Kind = iota
	// Turn begins a step; it has the time at which the step runs.
	Turn
	// Started begins the execution.
	Started
	// Scheduled says that a step has asked for something, an action of the number ID.
	Scheduled
	// Completed and Failed end the task of the number Task.
	Completed
	Failed
	// Raised brings an event from outside.
	Raised
	// Suspended stops the workflow, Resumed lets it go on.
	Suspended
	Resumed
	// Terminated ends the workflow.
	Terminated
)

// Event is an event of a history. Which fields have a meaning depends on its kind.
type Event struct {
	Kind Kind
	// Action and ID are the kind and number of what was Scheduled.
	Action ActionKind
	ID     int32
	// Task is the number of the task that has Completed or Failed.
	Task int32
	// Time is the time of a Turn.
	Time time.Time
	// Name is that of the activity or workflow that was Scheduled, or of the event that was Raised.
	Name string
	// Data is the workflow's input (Started), the result of a task (Completed), the content of an event (Raised), or the
	// reason of a termination (Terminated); nil for none.
	Data *string
	// Failure says why a task has Failed.
	Failure error
}

// ActionKind is a kind of what a workflow asks for.
type ActionKind uint8

// Kinds of actions.
const (
	// Unsupported is what only workflows of other languages ask for.
	Unsupported ActionKind = iota
	// Activity runs an activity, Workflow another workflow.
	Activity
	Workflow
	// Timer waits.
	Timer
	// Signal sends an operation to an entity, Call also waits for its result.
	Signal
	Call
	// Lock and Unlock begin and end a critical section.
	Lock
	Unlock
)

// String returns the name that a workflow's code knows the request by.
func (k ActionKind) String() string {
	switch k {
	case Activity:
		return "CallActivity"
	case Workflow:
		return "CallSubOrchestrator"
	case Timer:
		return "CreateTimer"
	case Signal:
		return "SignalEntity"
	case Call:
		return "CallEntity"
	case Lock:
		return "LockEntities"
	case Unlock:
		return "the function that unlocks entities"
	}
	return "something that workflows in Go do not ask for"
}

// Action is what a workflow asks for.
type Action struct {
	Kind ActionKind
	// Number is that of the action among all of the execution, and of its task.
	Number int32
	// Name is that of an activity, a workflow, or an entity's operation.
	Name string
	// Instance is the ID of a child workflow, empty for one that the engine chooses, or of an entity.
	Instance string
	// Input is JSON; nil for none.
	Input *string
	// At is the time of a Timer, and that at which a Signal may arrive, zero for at once.
	At time.Time
	// Section is the number of a critical section in the execution, from 1; Entities are those that a Lock is for.
	Section  int
	Entities []string
}

// Outcome is what a step leads to.
type Outcome struct {
	// Actions are in the order of their numbers.
	Actions []Action
	// CustomStatus is what the workflow has set last.
	CustomStatus string
	// End says how the workflow has ended; nil if it waits.
	End *End
}

// EndKind is a way in which a workflow ends.
type EndKind int

// Ways in which a workflow ends.
const (
	EndCompleted EndKind = iota
	EndFailed
	// EndContinued is an end that begins the workflow again, with Output as its input.
	EndContinued
	EndTerminated
)

// End says how a workflow has ended.
type End struct {
	Kind EndKind
	// Number is behind those of all actions.
	Number int32
	// Output is JSON, or the reason of a termination; nil for none.
	Output *string
	// Err is why the workflow has failed.
	Err error
	// Kept are the places in History.Events of those that EndContinued hands on.
	Kept []int
}
