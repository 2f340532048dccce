package replay

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lazuli-storage/lazuli/internal/durable/failure"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func text(s string) *string { return &s }

// Events, as short as the tables need them.
func turn(minutes int) Event {
	return Event{Kind: Turn, Time: noon.Add(time.Duration(minutes) * time.Minute)}
}
func started(input string) Event { return Event{Kind: Started, Data: text(input)} }
func scheduled(id int32, k ActionKind, name string) Event {
	return Event{Kind: Scheduled, ID: id, Action: k, Name: name}
}
func completed(task int32, result string) Event {
	return Event{Kind: Completed, Task: task, Data: text(result)}
}
func failed(task int32, why string) Event {
	return Event{Kind: Failed, Task: task, Failure: &failure.Details{Type: "Broken", Message: why}}
}
func raised(name, data string) Event { return Event{Kind: Raised, Name: name, Data: text(data)} }

// activity runs an activity and waits for a text.
func activity(x *Execution, name string) (string, error) {
	var out string
	err := x.Activity(name, nil).Await(&out)
	return out, err
}

// chain calls two activities.
func chain(x *Execution) (any, error) {
	a, err := activity(x, "a")
	if err != nil {
		return nil, err
	}
	b, err := activity(x, "b")
	return a + b, err
}

// first waits for the first of an event and a timer of an hour.
func first(x *Execution) (any, error) {
	timer, event := x.Timer(time.Hour), x.Event("go", -1)
	for !timer.Ended() && !event.Ended() {
		x.Wait()
	}
	return fmt.Sprint(timer.Ended(), event.Ended()), nil
}

// rounds continues as new with each event, and keeps the others.
func rounds(x *Execution) (any, error) {
	var n int
	if err := x.Event("n", -1).Await(&n); err != nil {
		return nil, err
	}
	x.ContinueAsNew(n, true)
	return nil, nil
}

func ask(k ActionKind, number int32, name string) Action {
	return Action{Kind: k, Number: number, Name: name}
}

// What a step asks for and how it ends, by the history before it.
func TestRun(t *testing.T) {
	t.Parallel()
	waited := func(x *Execution) (any, error) { return nil, x.Event("go", time.Hour).Await(nil) }
	for _, c := range []struct {
		name   string
		run    Function
		events []Event
		want   Outcome
	}{
		{"no events", chain, nil, Outcome{}},
		{"the first step", chain, []Event{turn(0), started("1")}, Outcome{Actions: []Action{ask(Activity, 0, "a")}}},
		{"a step that is repeated", chain, []Event{turn(0), started("1"), scheduled(0, Activity, "a")}, Outcome{}},
		{"the second step", chain,
			[]Event{turn(0), started("1"), scheduled(0, Activity, "a"), turn(1), completed(0, `"x"`)},
			Outcome{Actions: []Action{ask(Activity, 1, "b")}}},
		{"a result that comes twice", chain,
			[]Event{turn(0), started("1"), scheduled(0, Activity, "a"), completed(0, `"x"`), completed(0, `"z"`)},
			Outcome{Actions: []Action{ask(Activity, 1, "b")}}},
		{"the end", chain, []Event{turn(0), started("1"), scheduled(0, Activity, "a"), completed(0, `"x"`),
			scheduled(1, Activity, "b"), completed(1, `"y"`)},
			Outcome{End: &End{Kind: EndCompleted, Number: 2, Output: text(`"xy"`)}}},
		{"a failure", chain, []Event{turn(0), started("1"), scheduled(0, Activity, "a"), failed(0, "no a")},
			Outcome{End: &End{Kind: EndFailed, Number: 1, Err: &TaskError{&failure.Details{Type: "Broken", Message: "no a"}}}}},
		{"an event before it is waited for", waited, []Event{turn(0), raised("GO", "1"), started("1")},
			Outcome{End: &End{}}},
		{"an event", waited, []Event{turn(0), started("1"), scheduled(0, Timer, ""), raised("Go", "1")},
			Outcome{End: &End{Number: 1}}},
		{"a timeout", waited, []Event{turn(0), started("1"), scheduled(0, Timer, ""), completed(0, "")},
			Outcome{End: &End{Kind: EndFailed, Number: 1, Err: ErrCanceled}}},
		{"the timer comes first", first, []Event{turn(0), started(""), scheduled(0, Timer, ""), completed(0, ""),
			raised("go", "1")}, Outcome{End: &End{Number: 1, Output: text(`"true false"`)}}},
		{"the event comes first", first, []Event{turn(0), started(""), scheduled(0, Timer, ""), raised("go", "1"),
			completed(0, "")}, Outcome{End: &End{Number: 1, Output: text(`"false true"`)}}},
		{"suspended", chain, []Event{turn(0), started("1"), {Kind: Suspended}}, Outcome{}},
		{"suspended twice", chain, []Event{turn(0), started("1"), scheduled(0, Activity, "a"), {Kind: Suspended},
			{Kind: Suspended}, completed(0, `"x"`), {Kind: Resumed}}, Outcome{Actions: []Action{ask(Activity, 1, "b")}}},
		{"suspended before it began", first, []Event{{Kind: Suspended}, turn(0), started(""), raised("go", "1"),
			{Kind: Resumed}, turn(1)}, Outcome{Actions: []Action{{Kind: Timer, At: noon.Add(time.Hour)}},
			End: &End{Number: 1, Output: text(`"false true"`)}}},
		{"what is held is one event", first, []Event{turn(0), started(""), scheduled(0, Timer, ""), {Kind: Suspended},
			completed(0, ""), raised("go", "1"), {Kind: Resumed}},
			Outcome{End: &End{Number: 1, Output: text(`"true true"`)}}},
		{"terminated", chain, []Event{turn(0), started("1"), {Kind: Terminated, Data: text("why")}, completed(0, `"x"`)},
			Outcome{Actions: []Action{ask(Activity, 0, "a")}, End: &End{Kind: EndTerminated, Number: 1, Output: text("why")}}},
		{"terminated while suspended", chain, []Event{turn(0), started("1"), scheduled(0, Activity, "a"),
			{Kind: Suspended}, {Kind: Terminated}}, Outcome{End: &End{Kind: EndTerminated, Number: 1}}},
		{"terminated after its end", func(*Execution) (any, error) { return 1, nil },
			[]Event{turn(0), started("1"), {Kind: Terminated}}, Outcome{End: &End{Output: text("1")}}},
		{"terminated instead of beginning again", rounds, []Event{turn(0), started(""), raised("n", "1"),
			{Kind: Terminated}}, Outcome{End: &End{Kind: EndTerminated, Number: 1}}},
		{"continued", rounds, []Event{turn(0), started(""), raised("n", "7"), raised("n", "8"), raised("m", "9")},
			Outcome{End: &End{Kind: EndContinued, Output: text("7"), Kept: []int{3, 4}}}},
		{"the time of a step", func(x *Execution) (any, error) { return x.Now(), x.Timer(time.Minute).Await(nil) },
			[]Event{turn(5), started("")}, Outcome{Actions: []Action{{Kind: Timer, At: noon.Add(6 * time.Minute)}}}},
		{"an output that is no JSON", func(*Execution) (any, error) { return func() {}, nil },
			[]Event{turn(0), started("")}, Outcome{End: &End{Kind: EndFailed, Err: errors.New("failed to complete the " +
				"orchestration: json: unsupported type: func()")}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for past := range len(c.events) + 1 { // How much of it is old has no meaning for the function.
				got, err := Run(History{Events: c.events, Past: past}, c.run)
				if err != nil {
					t.Fatal(err)
				}
				if d := cmp.Diff(&c.want, got, sameText, cmpopts.EquateEmpty()); d != "" {
					t.Fatalf("with %d old events: %s", past, d)
				}
			}
		})
	}
}

// sameText compares errors by their texts.
var sameText = cmp.Comparer(func(a, b error) bool {
	return (a == nil) == (b == nil) && (a == nil || a.Error() == b.Error())
})

// A workflow whose code has changed fails, wherever the event is that it has no request for.
func TestMismatch(t *testing.T) {
	t.Parallel()
	ended := func(*Execution) (any, error) { return nil, nil }
	for name, c := range map[string]struct {
		run    Function
		events []Event
		want   string
	}{
		"another number": {chain, []Event{started(""), scheduled(1, Activity, "a")},
			"called CallActivity for 'a' and sequence number 1 "},
		"another kind": {chain, []Event{started(""), scheduled(0, Timer, "")}, "called CreateTimer with sequence number 0 "},
		"after its end": {ended, []Event{started(""), scheduled(0, Workflow, "w")},
			"called CallSubOrchestrator for 'w' and sequence number 0 "},
		"of another language": {chain, []Event{started(""), scheduled(0, Unsupported, "")}, "workflows in Go do not ask for"},
	} {
		var mismatch *MismatchError
		if _, err := Run(History{Events: c.events}, c.run); !errors.As(err, &mismatch) ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The error of a panic has its value and stack, and so has that of a function that ends its goroutine.
func TestPanic(t *testing.T) {
	t.Parallel()
	var none map[string]int
	for want, run := range map[string]Function{
		"the workflow panicked: broken": func(*Execution) (any, error) { panic("broken") },
		"the workflow panicked: assignment to entry in nil map": func(*Execution) (any, error) {
			none["a"] = 1
			return nil, nil
		},
		"the workflow panicked: the function has ended its goroutine": func(x *Execution) (any, error) {
			(&Execution{}).leave()
			return nil, nil
		},
	} {
		var p *PanicError
		if _, err := Run(History{Events: []Event{started("")}}, run); !errors.As(err, &p) || err.Error() != want ||
			!strings.Contains(p.Stack, "replay_test.go") && !strings.Contains(want, "goroutine") {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// The deferred functions of a function that waits run, and change nothing: the workflow is still there.
func TestDeferredFunctionsOfOneThatWaits(t *testing.T) {
	t.Parallel()
	ran, recovered := 0, any("nothing yet")
	wait := func(x *Execution) (any, error) {
		defer func() { ran++ }()
		defer func() { _ = x.Activity("cleanup", nil).Await(nil) }()
		defer x.Unlock(1, "@a@b")
		defer x.SetCustomStatus("done")
		defer func() { recovered = recover() }()
		return activity(x, "a")
	}
	o, err := Run(History{Events: []Event{started("")}}, wait)
	if err != nil || ran != 1 || recovered != nil || o.CustomStatus != "" || o.End != nil ||
		!cmp.Equal(o.Actions, []Action{ask(Activity, 0, "a")}) {
		t.Errorf("%+v, %v; ran %d, recovered %v", o, err, ran, recovered)
	}
	// When it goes on, they count.
	o, err = Run(History{Events: []Event{started(""), scheduled(0, Activity, "a"), completed(0, `"x"`)}}, wait)
	if err != nil || o.CustomStatus != "done" || o.End != nil ||
		!cmp.Equal(o.Actions, []Action{{Kind: Unlock, Number: 1, Section: 1, Instance: "@a@b"},
			ask(Activity, 2, "cleanup")}) {
		t.Errorf("%+v, %v", o, err)
	}
}

// A function that panics and waits in a deferred one waits; once what it waits for is there, the panic goes on.
func TestWaitWithinPanic(t *testing.T) {
	t.Parallel()
	run := func(x *Execution) (any, error) {
		defer func() { _, _ = activity(x, "undo") }()
		panic("broken")
	}
	o, err := Run(History{Events: []Event{started("")}}, run)
	if err != nil || o.End != nil || !cmp.Equal(o.Actions, []Action{ask(Activity, 0, "undo")}) {
		t.Errorf("%+v, %v", o, err)
	}
	_, err = Run(History{Events: []Event{started(""), scheduled(0, Activity, "undo"), completed(0, `"x"`)}}, run)
	if err == nil || err.Error() != "the workflow panicked: broken" {
		t.Errorf("got %v", err)
	}
}

// Events that come before and after the timeouts of several tasks for one name end one task each.
func TestEventsAndTimeouts(t *testing.T) {
	t.Parallel()
	var got string
	two := func(x *Execution) (any, error) {
		a, b := x.Event("e", time.Minute), x.Event("e", time.Hour)
		var one, other int
		first, second := a.Await(&one), b.Await(&other)
		third := x.Event("e", 0).Await(nil)
		got = fmt.Sprintf("%d %d %v %v %v", one, other, first, second, third)
		return nil, nil
	}
	begin := []Event{turn(0), started(""), scheduled(0, Timer, ""), scheduled(1, Timer, "")}
	const canceled = "the task was canceled"
	for want, events := range map[string][]Event{
		"1 2 <nil> <nil> " + canceled:                       {raised("e", "1"), completed(0, ""), raised("e", "2")},
		"0 1 " + canceled + " <nil> " + canceled:            {completed(0, ""), raised("e", "1"), raised("e", "2")},
		"0 0 " + canceled + " " + canceled + " " + canceled: {completed(0, ""), completed(1, ""), raised("e", "1")},
	} {
		o, err := Run(History{Events: append(begin[:len(begin):len(begin)], events...)}, two)
		if err != nil || o.End == nil || got != want {
			t.Errorf("got %s, %+v, %v; want %s", got, o, err, want)
		}
	}
}

// IDs and the news of what is replayed are the same in each replay.
func TestUUIDsAndReplaying(t *testing.T) {
	t.Parallel()
	events := []Event{turn(0), started(""), scheduled(0, Activity, "a"), turn(1), completed(0, `"x"`)}
	run := func(past int, execution string) (ids []string, replaying []bool) {
		_, err := Run(History{Instance: "i", Execution: execution, Events: events, Past: past},
			func(x *Execution) (any, error) {
				note := func() { ids, replaying = append(ids, x.NewUUID().String()), append(replaying, x.Replaying()) }
				note()
				_, err := activity(x, "a")
				note()
				return nil, err
			})
		if err != nil {
			t.Fatal(err)
		}
		return ids, replaying
	}
	ids, replaying := run(3, "e")
	if again, _ := run(5, "e"); !cmp.Equal(ids, again) || ids[0] == ids[1] {
		t.Errorf("IDs %v, and %v again", ids, again)
	}
	if other, _ := run(3, "f"); other[0] == ids[0] {
		t.Errorf("another execution has the ID %s too", other[0])
	}
	if !cmp.Equal(replaying, []bool{true, false}) {
		t.Errorf("replaying: %v", replaying)
	}
}
