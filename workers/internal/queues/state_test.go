package queues

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/workers/internal/calls"
)

var errBroken = errors.New("boom")

// retryFunc is a retry policy.
type retryFunc func(attempts int64) time.Duration

func (f retryFunc) Delay(attempts int64) time.Duration { return f(attempts) }

// The whole machine, states down and events across: an empty cell is a move that must be refused.
func TestMessageStates(t *testing.T) {
	t.Parallel()
	want := map[State]map[Event]struct {
		state State
		do    effectKind
	}{
		received: {Begin: {running, DoRun}, TurnAway: {Settling, DoRelease}, LeaseLost: {gone, doNothing}},
		running:  {LeaseLost: {orphaned, DoCancel}, Finish: {Settling, DoDelete}},
		orphaned: {LeaseLost: {orphaned, doNothing}, Finish: {gone, doNothing}},
		Settling: {LeaseLost: {gone, doNothing}, Settled: {gone, doNothing}},
		gone:     {},
	}
	p := Policy{MaxDequeueCount: 5, Retry: retryFunc(func(int64) time.Duration { return 0 }), HasPoison: true}
	for s := received; s <= gone; s++ {
		for e := Begin; e <= Settled; e++ {
			state, effect, err := p.Next(s, e, Facts{DequeueCount: 1})
			cell, legal := want[s][e]
			switch {
			case legal && (err != nil || state != cell.state || effect.Kind != cell.do):
				t.Errorf("%v in %v: got %v, %v, %v; want %v, %v", e, s, state, effect.Kind, err, cell.state, cell.do)
			case !legal && err == nil:
				t.Errorf("%v in %v: got %v, want a refusal", e, s, state)
			}
		}
	}
}

func TestMessageFate(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name      string
		event     Event
		facts     Facts
		noPoison  bool
		want      effectKind
		wantDelay time.Duration
		says      string
	}{
		{name: "first attempt", event: Begin, facts: Facts{DequeueCount: 1}, want: DoRun},
		{name: "last attempt", event: Begin, facts: Facts{DequeueCount: 5}, want: DoRun},
		{name: "one attempt too many", event: Begin, facts: Facts{DequeueCount: 6}, want: DoPoison, says: "6 times"},
		{name: "one too many, no poison queue", event: Begin, facts: Facts{DequeueCount: 6}, noPoison: true,
			want: DoLeave},
		{name: "undecodable", event: Begin, facts: Facts{DequeueCount: 1, Undecodable: true}, want: DoPoison,
			says: "base64"},

		{name: "success", event: Finish, facts: Facts{DequeueCount: 1}, want: DoDelete},
		{name: "success at the last attempt", event: Finish, facts: Facts{DequeueCount: 5}, want: DoDelete},
		{name: "failure", event: Finish, facts: Facts{DequeueCount: 1, Outcome: errBroken}, want: DoRelease,
			wantDelay: time.Second},
		{name: "second failure", event: Finish, facts: Facts{DequeueCount: 2, Outcome: errBroken}, want: DoRelease,
			wantDelay: 2 * time.Second},
		{name: "last failure", event: Finish, facts: Facts{DequeueCount: 5, Outcome: errBroken}, want: DoPoison,
			says: "boom"},
		{name: "last failure, no poison queue", event: Finish, facts: Facts{DequeueCount: 5, Outcome: errBroken},
			noPoison: true, want: DoLeave},
		{name: "permanent", event: Finish, facts: Facts{DequeueCount: 1, Outcome: calls.Permanent(errBroken)}, want: DoPoison,
			says: "permanent"},
		{name: "permanent, wrapped", event: Finish,
			facts: Facts{DequeueCount: 1, Outcome: errors.Join(errBroken, calls.Permanent(errBroken))}, want: DoPoison},
		{name: "retry after", event: Finish, facts: Facts{DequeueCount: 1, Outcome: calls.RetryAfter(errBroken, time.Minute)},
			want: DoRelease, wantDelay: time.Minute},
		{name: "retry after, last", event: Finish,
			facts: Facts{DequeueCount: 5, Outcome: calls.RetryAfter(errBroken, time.Minute)}, want: DoPoison},
		{name: "snooze", event: Finish, facts: Facts{DequeueCount: 1, Outcome: calls.Snooze(time.Minute)}, want: DoRequeue,
			wantDelay: time.Minute},
		{name: "snooze at the last attempt", event: Finish,
			facts: Facts{DequeueCount: 5, Outcome: calls.Snooze(time.Minute)}, want: DoRequeue, wantDelay: time.Minute},
		{name: "negative snooze", event: Finish, facts: Facts{DequeueCount: 1, Outcome: calls.Snooze(-time.Minute)},
			want: DoRequeue},

		{name: "interrupted", event: Finish, facts: Facts{DequeueCount: 1, Outcome: errBroken, Interrupted: true},
			want: DoRelease},
		{name: "interrupted at the last attempt", event: Finish,
			facts: Facts{DequeueCount: 5, Outcome: errBroken, Interrupted: true}, want: DoRequeue},
		{name: "interrupted but done", event: Finish, facts: Facts{DequeueCount: 5, Interrupted: true},
			want: DoDelete},
		{name: "not begun", event: TurnAway, facts: Facts{DequeueCount: 4}, want: DoRelease},
		{name: "not begun, last attempt", event: TurnAway, facts: Facts{DequeueCount: 5}, want: DoRequeue},
	}
	retry := retryFunc(func(attempts int64) time.Duration { return time.Duration(attempts) * time.Second })
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p := Policy{MaxDequeueCount: 5, Retry: retry, HasPoison: !c.noPoison}
			from := running
			if c.event != Finish {
				from = received
			}
			_, got, err := p.Next(from, c.event, c.facts)
			if err != nil {
				t.Fatal(err)
			}
			if got.Kind != c.want || got.Delay != c.wantDelay || !strings.Contains(got.Reason, c.says) {
				t.Errorf("got %v after %v (%q), want %v after %v (saying %q)", got.Kind, got.Delay, got.Reason, c.want, c.wantDelay,
					c.says)
			}
		})
	}
}

func TestPollingBackOff(t *testing.T) {
	t.Parallel()
	b := PollingBackOff{Max: 2 * time.Second}
	ms := time.Millisecond
	// With random 0.5 the factor is 1: 100 ms, then 100 ms + 100 ms * 2^n, until the maximum.
	var got []time.Duration
	for range 8 {
		got = append(got, b.Empty(0.5))
	}
	want := []time.Duration{100 * ms, 200 * ms, 300 * ms, 500 * ms, 900 * ms, 1700 * ms, 2000 * ms, 2000 * ms}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("waits %v, want %v", got, want)
		}
	}
	b.Found()
	if d := b.Empty(0.5); d != 200*ms {
		t.Errorf("first wait after a message: %v, want 200ms", d)
	}
	if low, high := (&PollingBackOff{Max: time.Minute, exponent: 1}).Empty(0),
		(&PollingBackOff{Max: time.Minute, exponent: 1}).Empty(0.999999); low != 180*ms || high <= 219*ms || high > 220*ms {
		t.Errorf("the random factor spans %v to %v, want 180ms to 220ms", low, high)
	}
}
