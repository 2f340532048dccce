package workers

import (
	"errors"
	"strings"
	"testing"
	"time"
)

var errBoom = errors.New("boom")

// The whole machine, states down and events across: an empty cell is a move that must be refused.
func TestMessageStates(t *testing.T) {
	t.Parallel()
	want := map[messageState]map[messageEvent]struct {
		state messageState
		do    effectKind
	}{
		received: {begin: {running, doRun}, turnAway: {settling, doRelease}, leaseLost: {gone, doNothing}},
		running:  {leaseLost: {orphaned, doCancel}, finish: {settling, doDelete}},
		orphaned: {leaseLost: {orphaned, doNothing}, finish: {gone, doNothing}},
		settling: {leaseLost: {gone, doNothing}, settled: {gone, doNothing}},
		gone:     {},
	}
	p := messagePolicy{maxDequeueCount: 5, retry: Fixed(0), hasPoison: true}
	for s := received; s <= gone; s++ {
		for e := begin; e <= settled; e++ {
			state, effect, err := p.next(s, e, messageFacts{dequeueCount: 1})
			cell, legal := want[s][e]
			switch {
			case legal && (err != nil || state != cell.state || effect.kind != cell.do):
				t.Errorf("%v in %v: got %v, %v, %v; want %v, %v", e, s, state, effect.kind, err, cell.state, cell.do)
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
		event     messageEvent
		facts     messageFacts
		noPoison  bool
		want      effectKind
		wantDelay time.Duration
		says      string
	}{
		{name: "first attempt", event: begin, facts: messageFacts{dequeueCount: 1}, want: doRun},
		{name: "last attempt", event: begin, facts: messageFacts{dequeueCount: 5}, want: doRun},
		{name: "one attempt too many", event: begin, facts: messageFacts{dequeueCount: 6}, want: doPoison, says: "6 times"},
		{name: "one too many, no poison queue", event: begin, facts: messageFacts{dequeueCount: 6}, noPoison: true,
			want: doLeave},
		{name: "undecodable", event: begin, facts: messageFacts{dequeueCount: 1, undecodable: true}, want: doPoison,
			says: "base64"},

		{name: "success", event: finish, facts: messageFacts{dequeueCount: 1}, want: doDelete},
		{name: "success at the last attempt", event: finish, facts: messageFacts{dequeueCount: 5}, want: doDelete},
		{name: "failure", event: finish, facts: messageFacts{dequeueCount: 1, outcome: errBoom}, want: doRelease,
			wantDelay: time.Second},
		{name: "second failure", event: finish, facts: messageFacts{dequeueCount: 2, outcome: errBoom}, want: doRelease,
			wantDelay: 2 * time.Second},
		{name: "last failure", event: finish, facts: messageFacts{dequeueCount: 5, outcome: errBoom}, want: doPoison,
			says: "boom"},
		{name: "last failure, no poison queue", event: finish, facts: messageFacts{dequeueCount: 5, outcome: errBoom},
			noPoison: true, want: doLeave},
		{name: "permanent", event: finish, facts: messageFacts{dequeueCount: 1, outcome: Permanent(errBoom)}, want: doPoison,
			says: "permanent"},
		{name: "permanent, wrapped", event: finish,
			facts: messageFacts{dequeueCount: 1, outcome: errors.Join(errBoom, Permanent(errBoom))}, want: doPoison},
		{name: "retry after", event: finish, facts: messageFacts{dequeueCount: 1, outcome: RetryAfter(errBoom, time.Minute)},
			want: doRelease, wantDelay: time.Minute},
		{name: "retry after, last", event: finish,
			facts: messageFacts{dequeueCount: 5, outcome: RetryAfter(errBoom, time.Minute)}, want: doPoison},
		{name: "snooze", event: finish, facts: messageFacts{dequeueCount: 1, outcome: Snooze(time.Minute)}, want: doRequeue,
			wantDelay: time.Minute},
		{name: "snooze at the last attempt", event: finish,
			facts: messageFacts{dequeueCount: 5, outcome: Snooze(time.Minute)}, want: doRequeue, wantDelay: time.Minute},
		{name: "negative snooze", event: finish, facts: messageFacts{dequeueCount: 1, outcome: Snooze(-time.Minute)},
			want: doRequeue},

		{name: "interrupted", event: finish, facts: messageFacts{dequeueCount: 1, outcome: errBoom, interrupted: true},
			want: doRelease},
		{name: "interrupted at the last attempt", event: finish,
			facts: messageFacts{dequeueCount: 5, outcome: errBoom, interrupted: true}, want: doRequeue},
		{name: "interrupted but done", event: finish, facts: messageFacts{dequeueCount: 5, interrupted: true},
			want: doDelete},
		{name: "not begun", event: turnAway, facts: messageFacts{dequeueCount: 4}, want: doRelease},
		{name: "not begun, last attempt", event: turnAway, facts: messageFacts{dequeueCount: 5}, want: doRequeue},
	}
	retry := RetryFunc(func(attempts int64) time.Duration { return time.Duration(attempts) * time.Second })
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p := messagePolicy{maxDequeueCount: 5, retry: retry, hasPoison: !c.noPoison}
			from := running
			if c.event != finish {
				from = received
			}
			_, got, err := p.next(from, c.event, c.facts)
			if err != nil {
				t.Fatal(err)
			}
			if got.kind != c.want || got.delay != c.wantDelay || !strings.Contains(got.reason, c.says) {
				t.Errorf("got %v after %v (%q), want %v after %v (saying %q)", got.kind, got.delay, got.reason, c.want, c.wantDelay,
					c.says)
			}
		})
	}
}

func TestMarksOfNilAreNil(t *testing.T) {
	t.Parallel()
	if Permanent(nil) != nil || RetryAfter(nil, time.Second) != nil {
		t.Error("marking no error made one")
	}
	if !errors.Is(Permanent(errBoom), errBoom) || !errors.Is(RetryAfter(errBoom, 0), errBoom) {
		t.Error("a mark hides the error that it marks")
	}
}

func TestExponential(t *testing.T) {
	t.Parallel()
	p := Exponential(time.Second, time.Minute)
	for attempts, want := range map[int64]time.Duration{0: time.Second, 1: time.Second, 2: 2 * time.Second,
		4: 8 * time.Second, 60: time.Minute, 5000: time.Minute} {
		for range 50 {
			got := p.Delay(attempts)
			if got < want*8/10 || got > want*12/10 || got > time.Minute {
				t.Fatalf("after %d attempts: %v, want %v give or take a fifth, and at most a minute", attempts, got, want)
			}
		}
	}
}

func TestPollingBackOff(t *testing.T) {
	t.Parallel()
	b := pollingBackOff{max: 2 * time.Second}
	ms := time.Millisecond
	// With random 0.5 the factor is 1: 100 ms, then 100 ms + 100 ms * 2^n, until the maximum.
	var got []time.Duration
	for range 8 {
		got = append(got, b.empty(0.5))
	}
	want := []time.Duration{100 * ms, 200 * ms, 300 * ms, 500 * ms, 900 * ms, 1700 * ms, 2000 * ms, 2000 * ms}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("waits %v, want %v", got, want)
		}
	}
	b.found()
	if d := b.empty(0.5); d != 200*ms {
		t.Errorf("first wait after a message: %v, want 200ms", d)
	}
	if low, high := (&pollingBackOff{max: time.Minute, exponent: 1}).empty(0),
		(&pollingBackOff{max: time.Minute, exponent: 1}).empty(0.999999); low != 180*ms || high <= 219*ms || high > 220*ms {
		t.Errorf("the random factor spans %v to %v, want 180ms to 220ms", low, high)
	}
}
