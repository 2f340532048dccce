package jobrow

import (
	"testing"
	"time"
)

var now = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

// rowIn is a job in a state, whose last run is "r".
func rowIn(s State) Row {
	r := New("work", "", now)
	r.Run, r.Attempt = "r", 1
	r.enter(s, now)
	return r
}

// The states down, the events across; - is a refusal, and * a start that calls no handler.
func TestTransitions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		from                                                           State
		start, again, cancel, done, retry, wait, poisoned, asCancelled string
	}{
		{Waiting, "running", "running", "cancelled", "-", "-", "-", "-", "-"},
		{Running, "running", "running", "cancelling", "done", "retrying", "waiting", "poisoned", "cancelled"},
		{Cancelling, "cancelled*", "cancelled*", "cancelling", "done", "cancelled", "cancelled", "cancelled", "cancelled"},
		{Retrying, "running", "running", "cancelled", "-", "-", "-", "-", "-"},
		{Done, "done*", "done*", "-", "-", "-", "-", "-", "-"},
		{Poisoned, "poisoned*", "running", "-", "-", "-", "-", "-", "-"},
		{Cancelled, "cancelled*", "cancelled*", "-", "-", "-", "-", "-", "-"},
		{Dropped, "dropped*", "dropped*", "-", "-", "-", "-", "-", "-"},
	} {
		start := func(again bool) string {
			next, run := rowIn(c.from).Start(Attempt{Run: "s"}, again, now)
			if run != (next.Run == "s") || run != (next.Attempt == 2) {
				t.Errorf("%s: a start gives %+v", c.from, next)
			}
			if !run {
				return string(next.State) + "*"
			}
			return string(next.State)
		}
		finish := func(s State) string {
			if _, err := rowIn(c.from).Finish("other", Outcome{State: s}, now); err != ErrTaken {
				t.Errorf("%s: the end of another run: %v", c.from, err)
			}
			next, err := rowIn(c.from).Finish("r", Outcome{State: s}, now)
			return stateOr(next, err)
		}
		cancelled, err := rowIn(c.from).Cancel(now)
		for event, e := range map[string][2]string{
			"start": {start(false), c.start}, "start again": {start(true), c.again},
			"cancel": {stateOr(cancelled, err), c.cancel},
			"done":   {finish(Done), c.done}, "retry": {finish(Retrying), c.retry}, "wait": {finish(Waiting), c.wait},
			"poison": {finish(Poisoned), c.poisoned}, "cancelled": {finish(Cancelled), c.asCancelled},
		} {
			if e[0] != e[1] {
				t.Errorf("%s, %s: %s, want %s", c.from, event, e[0], e[1])
			}
		}
	}
}

func stateOr(r Row, err error) string {
	if err != nil {
		return "-"
	}
	return string(r.State)
}

// Rows that have ended are kept for as long as they must be.
func TestExpiry(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		state State
		keep  time.Duration
		want  time.Duration
	}{
		{Waiting, time.Hour, 0}, {Running, time.Hour, 0}, {Done, 0, 0}, {Done, 2 * time.Hour, 2 * time.Hour},
		{Cancelled, 0, time.Hour}, {Cancelled, 2 * time.Hour, 2 * time.Hour}, {Poisoned, time.Hour, 7 * 24 * time.Hour},
		{Dropped, 0, time.Hour},
	} {
		r := New("work", "", now)
		r.KeepSeconds = int64(c.keep / time.Second)
		r.enter(c.state, now)
		if c.want == 0 != r.Expires.IsZero() || c.want > 0 && r.Expires.Sub(now) != c.want {
			t.Errorf("%s, kept for %v: until %v", c.state, c.keep, r.Expires)
		}
	}
}

func TestMarks(t *testing.T) {
	t.Parallel()
	r := New("work", "", now)
	for _, again := range []bool{false, true} {
		m := Mark{r.FullID(), r.Token, again}
		if got, body, ok := ParseMark(m.Text("eA==\nb")); got != m || body != "eA==\nb" || !ok {
			t.Errorf("got %+v, %q, %v", got, body, ok)
		}
	}
	for _, text := range []string{"", "eA==", "lazuli-job/1 ", "lazuli-job/1 work.x T\n",
		"lazuli-job/1 " + r.FullID() + "\nx",
		"lazuli-job/1 " + r.FullID() + " T", "lazuli-job/1 " + r.FullID() + " T x\nbody"} {
		if m, body, ok := ParseMark(text); ok || body != text || m != (Mark{}) {
			t.Errorf("%q: %+v, %q", text, m, body)
		}
	}
}
