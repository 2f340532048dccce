package queue

import (
	"errors"
	"math"
	"testing"
	"time"
)

// TestMachine is the whole matrix: what a message is, down; what is asked, across.
func TestMachine(t *testing.T) {
	t.Parallel()
	const now = int64(1_000_000_000_000)
	sec := int64(time.Second)
	var (
		absent  *State
		expired = &State{Inserted: now - 10*sec, Expires: now, NextVisible: now - 10*sec}
		hidden  = &State{Inserted: now - 10*sec, Expires: now + 100*sec, NextVisible: now + 1, DequeueCount: 3}
		visible = &State{Inserted: now - 10*sec, Expires: now + 100*sec, NextVisible: now, DequeueCount: 3}
		forever = &State{Inserted: now - 10*sec, Expires: Never, NextVisible: now, DequeueCount: math.MaxUint32}
	)
	put := func(visibility, ttl time.Duration) Event { return Event{Kind: Put, Visibility: visibility, TTL: ttl} }
	claim := func(v time.Duration) Event { return Event{Kind: Claim, Visibility: v} }
	change := func(v time.Duration) Event { return Event{Kind: Change, Visibility: v} }
	remove := Event{Kind: Remove}

	for _, tc := range []struct {
		name  string
		from  *State
		event Event
		to    State
		err   error
	}{
		{"put", absent, put(0, time.Minute), State{now, now + 60*sec, now, 0}, nil},
		{"put delayed", absent, put(5*time.Second, time.Minute), State{now, now + 60*sec, now + 5*sec, 0}, nil},
		{"put forever", absent, put(5*time.Second, Forever), State{now, Never, now + 5*sec, 0}, nil},
		{"put visible after expiry", absent, put(time.Minute, time.Minute), State{}, ErrPastExpiry},
		{"put longer than time counts", absent, put(0, math.MaxInt64), State{now, math.MaxInt64, now, 0}, nil},
		{"put hidden", hidden, put(0, time.Minute), State{}, ErrReceiptMismatch},
		{"put visible", visible, put(0, time.Minute), State{}, ErrReceiptMismatch},
		{"put expired", expired, put(0, time.Minute), State{}, ErrReceiptMismatch},

		{"claim absent", absent, claim(time.Second), State{}, ErrMessageNotFound},
		{"claim expired", expired, claim(time.Second), State{}, ErrMessageNotFound},
		{"claim hidden", hidden, claim(time.Second), State{}, ErrNotVisible},
		{"claim visible", visible, claim(time.Second), State{now - 10*sec, now + 100*sec, now + sec, 4}, nil},
		{"claim past expiry", visible, claim(time.Hour), State{now - 10*sec, now + 100*sec, now + 3600*sec, 4}, nil},
		{"claim once more than can be counted", forever, claim(0), State{now - 10*sec, Never, now, math.MaxUint32}, nil},

		{"change absent", absent, change(0), State{}, ErrMessageNotFound},
		{"change expired", expired, change(0), State{}, ErrMessageNotFound},
		{"change hidden", hidden, change(2 * time.Second), State{now - 10*sec, now + 100*sec, now + 2*sec, 3}, nil},
		{"change hidden to visible", hidden, change(0), State{now - 10*sec, now + 100*sec, now, 3}, nil},
		{"change visible", visible, change(2 * time.Second), State{now - 10*sec, now + 100*sec, now + 2*sec, 3}, nil},
		{"change until expiry", visible, change(100 * time.Second), State{now - 10*sec, now + 100*sec, now + 100*sec, 3},
			nil},
		{"change past expiry", visible, change(100*time.Second + 1), State{}, ErrPastExpiry},
		{"change forever", forever, change(time.Hour), State{now - 10*sec, Never, now + 3600*sec, math.MaxUint32}, nil},

		{"remove absent", absent, remove, State{}, ErrMessageNotFound},
		{"remove expired", expired, remove, State{}, ErrMessageNotFound},
		{"remove hidden", hidden, remove, State{}, nil},
		{"remove visible", visible, remove, State{}, nil},

		{"nothing known", visible, Event{Kind: 99}, State{}, ErrMessageNotFound},
	} {
		t.Run(tc.name, func(t *testing.T) {
			to, err := next(tc.from, tc.event, now)
			if to != tc.to || !errors.Is(err, tc.err) || (err == nil) != (tc.err == nil) {
				t.Errorf("got  %+v, %v\nwant %+v, %v", to, err, tc.to, tc.err)
			}
		})
	}
}
