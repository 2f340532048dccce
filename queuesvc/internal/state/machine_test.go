package state

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
	change := func(v time.Duration, current bool) Event { return Event{Kind: Change, Visibility: v, Current: current} }
	remove := func(current bool) Event { return Event{Kind: Remove, Current: current} }

	for _, tc := range []struct {
		name   string
		from   *State
		event  Event
		to     State
		effect Effect
		err    error
	}{
		{"put", absent, put(0, time.Minute), State{now, now + 60*sec, now, 0}, Replace, nil},
		{"put delayed", absent, put(5*time.Second, time.Minute), State{now, now + 60*sec, now + 5*sec, 0}, Replace, nil},
		{"put forever", absent, put(5*time.Second, Forever), State{now, Never, now + 5*sec, 0}, Replace, nil},
		{"put visible after expiry", absent, put(time.Minute, time.Minute), State{}, Keep, ErrPastExpiry},
		{"put longer than time counts", absent, put(0, math.MaxInt64), State{now, math.MaxInt64, now, 0}, Replace, nil},
		{"put hidden", hidden, put(0, time.Minute), State{}, Keep, ErrReceiptMismatch},
		{"put visible", visible, put(0, time.Minute), State{}, Keep, ErrReceiptMismatch},
		{"put expired", expired, put(0, time.Minute), State{}, Keep, ErrReceiptMismatch},

		{"claim absent", absent, claim(time.Second), State{}, Keep, ErrMessageNotFound},
		{"claim expired", expired, claim(time.Second), State{}, Keep, ErrMessageNotFound},
		{"claim hidden", hidden, claim(time.Second), State{}, Keep, ErrNotVisible},
		{"claim visible", visible, claim(time.Second), State{now - 10*sec, now + 100*sec, now + sec, 4}, Replace, nil},
		{"claim past expiry", visible, claim(time.Hour), State{now - 10*sec, now + 100*sec, now + 3600*sec, 4}, Replace, nil},
		{"claim once more than can be counted", forever, claim(0), State{now - 10*sec, Never, now, math.MaxUint32}, Replace,
			nil},

		{"look absent", absent, Event{Kind: Look}, State{}, Keep, ErrMessageNotFound},
		{"look expired", expired, Event{Kind: Look}, State{}, Keep, ErrMessageNotFound},
		{"look hidden", hidden, Event{Kind: Look}, State{}, Keep, ErrNotVisible},
		{"look visible", visible, Event{Kind: Look}, *visible, Keep, nil},

		{"change absent", absent, change(0, true), State{}, Keep, ErrMessageNotFound},
		{"change expired", expired, change(0, true), State{}, Keep, ErrMessageNotFound},
		{"change hidden", hidden, change(2*time.Second, true), State{now - 10*sec, now + 100*sec, now + 2*sec, 3}, Replace,
			nil},
		{"change hidden to visible", hidden, change(0, true), State{now - 10*sec, now + 100*sec, now, 3}, Replace, nil},
		{"change hidden, stale", hidden, change(0, false), State{}, Keep, ErrReceiptMismatch},
		{"change visible", visible, change(2*time.Second, true), State{now - 10*sec, now + 100*sec, now + 2*sec, 3}, Replace,
			nil},
		{"change visible, stale", visible, change(0, false), State{}, Keep, ErrReceiptMismatch},
		{"change until expiry", visible, change(100*time.Second, true), State{now - 10*sec, now + 100*sec, now + 100*sec, 3},
			Replace, nil},
		{"change past expiry", visible, change(100*time.Second+1, true), State{}, Keep, ErrPastExpiry},
		{"change forever", forever, change(time.Hour, true), State{now - 10*sec, Never, now + 3600*sec, math.MaxUint32},
			Replace, nil},

		{"remove absent", absent, remove(true), State{}, Keep, ErrMessageNotFound},
		{"remove expired", expired, remove(true), State{}, Keep, ErrMessageNotFound},
		{"remove hidden", hidden, remove(true), State{}, Erase, nil},
		{"remove hidden, stale", hidden, remove(false), State{}, Keep, ErrReceiptMismatch},
		{"remove visible", visible, remove(true), State{}, Erase, nil},
		{"remove visible, stale", visible, remove(false), State{}, Keep, ErrReceiptMismatch},

		{"nothing known", visible, Event{Kind: 99}, State{}, Keep, ErrMessageNotFound},
	} {
		t.Run(tc.name, func(t *testing.T) {
			to, effect, err := Next(tc.from, tc.event, now)
			if to != tc.to || effect != tc.effect || !errors.Is(err, tc.err) || (err == nil) != (tc.err == nil) {
				t.Errorf("got  %+v, %d, %v\nwant %+v, %d, %v", to, effect, err, tc.to, tc.effect, tc.err)
			}
		})
	}
}
