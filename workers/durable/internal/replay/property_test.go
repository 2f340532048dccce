package replay

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/lazuli-storage/lazuli/internal/durable/failure"
)

// program is the code of a workflow: numbers that choose what it does next. It returns what it has seen.
type program []int

func (p program) run(x *Execution) (any, error) {
	var open []*Task
	var seen []string
	note := func(format string, v ...any) { seen = append(seen, fmt.Sprintf(format, v...)) }
	await := func(t *Task) {
		var v int
		err := t.Await(&v)
		note("%d %v at %v", v, err, x.Now())
	}
	for _, n := range p {
		switch arg := n / 10; n % 10 {
		case 0:
			open = append(open, x.Activity(fmt.Sprint("a", arg), nil))
		case 1:
			open = append(open, x.Timer(time.Duration(arg)*time.Second))
		case 2:
			open = append(open, x.Event(fmt.Sprint("e", arg%2), time.Duration(arg%3-1)*time.Minute))
		case 3:
			open = append(open, x.Workflow("w", "", nil), x.Call("@e@k", "get", nil))
		case 4:
			x.Signal("@e@k", "add", nil, time.Time{})
			note("%v", x.NewUUID())
		case 5, 6:
			if len(open) > 0 {
				i := arg % len(open)
				await(open[i])
				open = append(open[:i:i], open[i+1:]...)
			}
		case 7: // the first of all
			for first := -1; first < 0 && len(open) > 0; {
				for i, t := range open {
					if t.Ended() {
						first = i
						break
					}
				}
				if first < 0 {
					x.Wait()
					continue
				}
				note("%d is first", first)
				await(open[first])
				open = append(open[:first:first], open[first+1:]...)
			}
		case 8:
			x.SetCustomStatus(fmt.Sprint(len(seen)))
		case 9:
			if arg == 0 {
				x.ContinueAsNew(len(seen), true)
				return nil, nil
			}
		}
	}
	return seen, nil
}

// record runs a program step by step, as an engine does that gives it what it has asked for in any order, and returns
// the whole history.
func record(t *rapid.T, p program) []Event {
	history := []Event{}
	var open []int32
	begun := false
	for step := range rapid.IntRange(1, 12).Draw(t, "steps") {
		batch := []Event{turn(step)}
		if !begun {
			batch, begun = append(batch, started("1")), true
		}
		for range rapid.IntRange(0, 4).Draw(t, "events") {
			switch rapid.IntRange(0, 6).Draw(t, "event") {
			case 0:
				batch = append(batch, raised(fmt.Sprint("E", rapid.IntRange(0, 1).Draw(t, "name")), fmt.Sprint(step)))
			case 1:
				batch = append(batch, Event{Kind: Suspended})
			case 2:
				batch = append(batch, Event{Kind: Resumed})
			default:
				if len(open) == 0 {
					continue
				}
				i := rapid.IntRange(0, len(open)-1).Draw(t, "task")
				e := completed(open[i], fmt.Sprint(step))
				if rapid.Bool().Draw(t, "fails") {
					e = Event{Kind: Failed, Task: open[i], Failure: &failure.Details{Message: fmt.Sprint("no ", step)}}
				}
				batch = append(batch, e)
				open = append(open[:i:i], open[i+1:]...)
			}
		}
		past := len(history)
		history = append(history, batch...)
		o, err := Run(History{Instance: "i", Events: history, Past: past}, p.run)
		if err != nil {
			t.Fatalf("step %d: %v", step, err)
		}
		for _, a := range o.Actions {
			history = append(history, scheduled(a.Number, a.Kind, a.Name))
			if a.Kind != Signal {
				open = append(open, a.Number)
			}
		}
		if o.End != nil {
			break
		}
	}
	return history
}

// Every prefix of a history replays: without a mismatch, however much of it is old, and where the history says next
// what was asked for, the prefix asks for just that.
func TestEveryPrefixReplays(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := program(rapid.SliceOfN(rapid.IntRange(0, 59), 0, 20).Draw(t, "program"))
		history := record(t, p)
		for at := range len(history) + 1 {
			prefix := history[:at]
			o, err := Run(History{Instance: "i", Events: prefix, Past: at}, p.run)
			if err != nil {
				t.Fatalf("%d events: %v", at, err)
			}
			past := rapid.IntRange(0, at).Draw(t, "past")
			again, err := Run(History{Instance: "i", Events: prefix, Past: past}, p.run)
			if d := cmp.Diff(o, again, sameText, cmpopts.EquateEmpty()); err != nil || d != "" {
				t.Fatalf("%d events, %d of them old: %v, %s", at, past, err, d)
			}
			var want, got []Event
			for _, e := range history[at:] {
				if e.Kind != Scheduled {
					break
				}
				want = append(want, e)
			}
			for _, a := range o.Actions {
				got = append(got, scheduled(a.Number, a.Kind, a.Name))
			}
			if d := cmp.Diff(want, got); len(want) > 0 && d != "" {
				t.Fatalf("%d events: %s", at, d)
			}
		}
	})
}

// A history that a program has not made ends in a mismatch at most.
func FuzzRun(f *testing.F) {
	f.Add([]byte{0, 50, 7}, []byte{1, 2, 3, 0, 4, 0})
	f.Add([]byte{2, 12, 7, 5}, []byte{1, 2, 6, 7, 5, 1, 8})
	f.Fuzz(func(t *testing.T, code, bytes []byte) {
		var p program
		for _, b := range code {
			p = append(p, int(b)%60)
		}
		var events []Event
		for i := 0; i+1 < len(bytes); i += 2 {
			n := int32(bytes[i+1] % 8)
			events = append(events, Event{Kind: Kind(bytes[i] % 11), ID: n, Task: n, Action: ActionKind(n), Data: text("1"),
				Name: fmt.Sprint("e", n%2), Time: noon})
		}
		var mismatch *MismatchError
		if _, err := Run(History{Events: events}, p.run); err != nil && !errors.As(err, &mismatch) {
			t.Error(err)
		}
	})
}

// BenchmarkRun replays a workflow that has waited for 100 activities, one after the other.
func BenchmarkRun(b *testing.B) {
	events := []Event{turn(0), started("1")}
	for i := range int32(100) {
		events = append(events, scheduled(i, Activity, "a"), turn(1), completed(i, `"x"`))
	}
	run := func(x *Execution) (any, error) {
		for range 100 {
			if _, err := activity(x, "a"); err != nil {
				return nil, err
			}
		}
		return nil, nil
	}
	b.ReportAllocs()
	for b.Loop() {
		if o, err := Run(History{Events: events, Past: len(events)}, run); err != nil || o.End == nil {
			b.Fatal(o, err)
		}
	}
}
