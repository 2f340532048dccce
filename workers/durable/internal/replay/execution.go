package replay

import (
	"cmp"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Function is the code of a workflow. Its result is written as JSON; nil is no result.
type Function func(x *Execution) (any, error)

// Execution is one run of a workflow's function. It belongs to the function's goroutine.
type Execution struct {
	// Observe is called when the time or the answer of Replaying has changed. A function sets it before all else.
	Observe func()

	history  History
	function Function
	next     int // the place of the event that is taken next, behind those of ready
	ready    []int
	started  bool
	now      time.Time
	past     bool
	input    *string

	numbers int32            // that are taken
	actions map[int32]Action // what was asked for, and no event has confirmed
	tasks   map[int32]*Task  // that have not ended, except those for events
	waiting []*eventTask     // tasks for events that have not come, in the order of asking
	arrived []int            // places of events that no task has taken, in the order of arrival
	uuids   int              // that NewUUID has made

	suspended bool
	held      []int // places of events that came while the workflow was suspended

	customStatus string
	continues    *continuation
	end          *End
	// left means that the function does not go on: it waits for what is not in the history, or its end is decided.
	left bool
	err  error // a MismatchError or PanicError
}

// continuation is what ContinueAsNew has asked for.
type continuation struct {
	input any
	keep  bool
}

// MismatchError means that a workflow's function asks for something else than it has asked for in an earlier step.
type MismatchError struct {
	// Event is the event that no request belongs to.
	Event Event
}

// Error implements error.
func (e *MismatchError) Error() string {
	of := ""
	if e.Event.Name != "" {
		of = fmt.Sprintf(" for '%s' and", e.Event.Name)
	} else {
		of = " with"
	}
	return fmt.Sprintf("a previous execution called %v%s sequence number %d at this point in the orchestration logic, "+
		"but the current execution doesn't have this action with this sequence number", e.Event.Action, of, e.Event.ID)
}

// PanicError means that a workflow's function has panicked.
type PanicError struct {
	Value any
	Stack string
}

// Error implements error.
func (e *PanicError) Error() string { return fmt.Sprintf("the workflow panicked: %v", e.Value) }

// Run runs a workflow's function from a history. Its errors are *MismatchError and *PanicError: nothing of the step has
// a meaning then. The function has ended, or has been left, when Run returns.
func Run(h History, f Function) (*Outcome, error) {
	x := &Execution{Observe: func() {}, history: h, function: f, actions: map[int32]Action{}, tasks: map[int32]*Task{}}
	done := make(chan struct{})
	// The goroutine is the function's own, so that Goexit can leave it at any depth of its calls.
	go func() {
		defer close(done)
		finished := false
		defer func() {
			// A deferred function that panics after the function was left does not count: the step was over.
			p := recover()
			if finished || x.left {
				return
			}
			stack := make([]byte, maxStack)
			stack = stack[:runtime.Stack(stack, false)]
			if p == nil {
				p = "the function has ended its goroutine"
			}
			x.err = &PanicError{p, string(stack)}
		}()
		for x.takeNext() {
		}
		finished = true
	}()
	<-done
	if x.err != nil {
		return nil, x.err
	}
	return x.outcome(), nil
}

// maxStack bounds the stack trace of a panic.
const maxStack = 8 << 10

// outcome collects what the step leads to.
func (x *Execution) outcome() *Outcome {
	o := &Outcome{CustomStatus: x.customStatus}
	// What a workflow asks for while it is suspended waits: the next step asks for it again.
	if x.suspended && (x.end == nil || x.end.Kind != EndTerminated) {
		return o
	}
	for _, a := range x.actions {
		o.Actions = append(o.Actions, a)
	}
	slices.SortFunc(o.Actions, func(a, b Action) int { return cmp.Compare(a.Number, b.Number) })
	o.End = x.end
	if x.end != nil && x.end.Kind == EndContinued && x.continues.keep {
		o.End.Kept = x.arrived
	}
	return o
}

// takeNext gives the workflow its next event. It is false after the last one.
func (x *Execution) takeNext() bool {
	if len(x.ready) > 0 {
		place := x.ready[0]
		x.ready = x.ready[1:]
		x.take(place)
		return true
	}
	if x.next == len(x.history.Events) {
		return false
	}
	place := x.next
	x.next++
	if past := place < x.history.Past; past != x.past {
		x.past = past
		x.Observe()
	}
	x.take(place)
	return true
}

// take applies the event at a place.
func (x *Execution) take(place int) {
	e := &x.history.Events[place]
	switch e.Kind {
	case Suspended:
		x.suspended = true
		return
	case Terminated:
		x.terminate(e)
		return
	case Resumed:
		x.resume()
		return
	}
	if x.suspended {
		x.held = append(x.held, place)
		return
	}
	switch e.Kind {
	case Turn:
		x.now = e.Time
		x.Observe()
	case Started:
		x.start(e)
	case Scheduled:
		// The request stands under the number that it has had in the step that first made it.
		if a, ok := x.actions[e.ID]; !ok || a.Kind != e.Action {
			x.err = &MismatchError{*e}
			x.leave()
		}
		delete(x.actions, e.ID)
	case Completed, Failed:
		// Without a task the event is a second copy, or one of a workflow whose code has changed and that does not wait
		// for it.
		if t := x.tasks[e.Task]; t != nil {
			delete(x.tasks, e.Task)
			t.finish(e)
		}
	case Raised:
		x.raise(place)
	}
}

// start runs the function. The events behind e are taken within, when it waits.
func (x *Execution) start(e *Event) {
	x.started, x.input = true, e.Data
	output, err := x.function(x)
	if x.end != nil {
		return // It was terminated meanwhile.
	}
	end := &End{Kind: EndCompleted, Err: err}
	switch {
	case err != nil:
		end.Kind = EndFailed
	case x.continues != nil:
		end.Kind, output = EndContinued, x.continues.input
	}
	if err == nil && output != nil {
		text, err := json.Marshal(output)
		if err != nil {
			end.Kind, end.Err = EndFailed, fmt.Errorf("failed to complete the orchestration: %w", err)
		} else {
			end.Output = textOf(text)
		}
	}
	end.Number = x.number()
	x.end = end
}

// terminate ends the workflow from outside. What has ended otherwise stays so, unless it would begin again.
func (x *Execution) terminate(e *Event) {
	if x.end != nil && x.end.Kind != EndContinued {
		return
	}
	x.end = &End{Kind: EndTerminated, Number: x.number(), Output: e.Data}
	x.leave()
}

// resume applies what was held. All of it is one event to the function, as Resumed is: a function that waits for the
// first of several tasks finds those ended that have ended before it went on.
func (x *Execution) resume() {
	held := x.held
	x.suspended, x.held = false, nil
	if !x.started {
		// The function begins within the event that starts it, and takes the rest from here when it waits.
		x.ready = held
		return
	}
	for _, place := range held {
		x.take(place)
	}
}

// raise gives an event from outside to the task that has waited for its name longest, or keeps it.
func (x *Execution) raise(place int) {
	e := &x.history.Events[place]
	i := slices.IndexFunc(x.waiting, func(t *eventTask) bool { return t.name == eventName(e.Name) })
	if i < 0 {
		x.arrived = append(x.arrived, place)
		return
	}
	t := x.waiting[i]
	x.waiting = slices.Delete(x.waiting, i, i+1)
	t.finish(e)
}

// eventName returns the form of an event's name that is compared: names are case-insensitive.
func eventName(name string) string { return strings.ToUpper(name) }

// leave ends the function's goroutine, with its deferred functions.
func (x *Execution) leave() {
	x.left = true
	runtime.Goexit()
}

// Wait takes one event, which may end tasks. Without another one it leaves the function and does not return.
func (x *Execution) Wait() {
	if x.left || !x.takeNext() {
		x.leave()
	}
}

// number takes the next number of the execution.
func (x *Execution) number() int32 {
	n := x.numbers
	x.numbers++
	return n
}

func textOf(b []byte) *string {
	text := string(b)
	return &text
}
