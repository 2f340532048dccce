package queue

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/nats/natsserver"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// What was put while the clock was a day ahead is there when the clock is right: without a delay at once, with one when
// that has passed, for Get Messages and Peek Messages, also after a restart. What was handed out stays with its client
// for its visibility timeout, and is there then.
func TestClockThatWasAhead(t *testing.T) {
	t.Parallel()
	now := epoch
	ahead := now.Add(24 * time.Hour)
	for _, restart := range []bool{false, true} {
		for _, peek := range []bool{false, true} {
			t.Run(fmt.Sprintf("restart %v, peek %v", restart, peek), func(t *testing.T) {
				t.Parallel()
				n := startNATS(t, natsserver.Config{})
				s := open(t, n)
				q := create(t, s, "orders")
				putOne(t, q, "claimed", ahead)
				claimed := getFor(t, q, 10*time.Minute, ahead)
				putOne(t, q, "done", ahead)
				finished := getFor(t, q, 10*time.Minute, ahead)
				putOne(t, q, "plain", ahead)
				for text, at := range map[string]time.Time{"delayed": ahead, "own": now} {
					if _, err := q.Put([]byte(text), time.Hour, Forever, at); err != nil {
						t.Fatal(err)
					}
				}
				if restart {
					if err := s.Close(); err != nil {
						t.Fatal(err)
					}
					s = open(t, n)
					q = find(t, s, "orders")
				}
				if peek {
					if list, err := q.Peek(5, now); err != nil || len(list) != 1 || string(list[0].Body) != "plain" {
						t.Errorf("peeked %v, %v", list, err)
					}
				}
				if m := getOne(t, q, now); m == nil || string(m.Body) != "plain" {
					t.Errorf("got %+v", m)
				}
				if m := getOne(t, q, now.Add(30*time.Second)); m != nil {
					t.Errorf("got %s early", m.Body)
				}
				if err := q.Delete(finished.ID, finished.Receipt, now.Add(5*time.Minute)); err != nil {
					t.Errorf("the client of a message that was handed out deletes it: %v", err)
				}
				if m := getOne(t, q, now.Add(9*time.Minute)); m == nil || string(m.Body) != "plain" {
					t.Errorf("within the timeout of the one that was handed out: got %+v", m)
				} else if err := q.Delete(m.ID, m.Receipt, now.Add(9*time.Minute)); err != nil {
					t.Error(err)
				}
				due := now.Add(10*time.Minute + 2*time.Second)
				if peek {
					if list, err := q.Peek(5, due); err != nil || len(list) != 1 || string(list[0].Body) != "claimed" {
						t.Errorf("peeked %v, %v, when its timeout has passed", list, err)
					}
				}
				if d := q.NextVisible(due); d != 0 {
					t.Errorf("the next message is visible after %v", d)
				}
				if m := getFor(t, q, time.Second, due); m == nil || string(m.Body) != "claimed" || m.DequeueCount != 2 {
					t.Errorf("when its timeout has passed: got %+v", m)
				}
				if err := q.Delete(claimed.ID, claimed.Receipt, due); !errors.Is(err, ErrReceiptMismatch) {
					t.Errorf("the receipt of the first client: %v", err)
				}
				got := map[string]bool{}
				for m := getOne(t, q, now.Add(time.Hour)); m != nil; m = getOne(t, q, now.Add(time.Hour)) {
					got[string(m.Body)] = true
				}
				if !got["delayed"] || !got["own"] || !got["claimed"] || got["done"] {
					t.Errorf("after an hour %v", got)
				}
				if err := q.view(func(tx *store.Tx, id queueID) error {
					if c := readCounters(tx, id); c.again != 0 || c.noticed != 0 {
						t.Errorf("the messages would be looked at again: %+v", c)
					}
					return nil
				}); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// getFor gets a message for a visibility timeout.
func getFor(t *testing.T, q *Queue, timeout time.Duration, now time.Time) *Message {
	t.Helper()
	list, err := q.Get(1, timeout, now)
	if err != nil || len(list) != 1 {
		t.Fatalf("got %v, %v", list, err)
	}
	return &list[0]
}

func putForever(t *testing.T, q *Queue, text string, now time.Time) {
	t.Helper()
	if _, err := q.Put([]byte(text), 0, Forever, now); err != nil {
		t.Fatal(err)
	}
}

// A message that a clock that was ahead has handed out for as long as that clock was ahead, or changed, or put back at
// once, is there when its own timeout has passed; a clock that is ahead twice takes nothing from a client early.
func TestHandedOutByAClockThatWasAhead(t *testing.T) {
	t.Parallel()
	q := create(t, memory(t), "orders")
	now, ahead := epoch, epoch.Add(24*time.Hour)
	putForever(t, q, "a", now)
	// Nothing but the hand-out tells of the clock: the message was put by the right one.
	m := getFor(t, q, time.Minute, ahead)
	if got := getOne(t, q, now); got != nil {
		t.Fatalf("handed out to a second client: %+v", got)
	}
	m2, err := q.Update(m.ID, m.Receipt, nil, 2*time.Minute, ahead)
	if err != nil {
		t.Fatal(err)
	}
	if got := getOne(t, q, now.Add(time.Minute+time.Second)); got != nil {
		t.Fatalf("the timeout of the change has not passed: %+v", got)
	}
	if got := getOne(t, q, now.Add(3*time.Minute+2*time.Second)); got == nil { // since the last request has noticed
		t.Fatal("the timeout of the change has passed")
	}
	if err := q.Delete(m2.ID, m2.Receipt, now.Add(4*time.Minute)); !errors.Is(err, ErrReceiptMismatch) {
		t.Errorf("the receipt of the change: %v", err)
	}
	if _, err := q.Get(1, time.Second, now.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if err := q.Clear(); err != nil {
		t.Fatal(err)
	}

	// Two periods: what the second one has handed out waits for its own timeout.
	putForever(t, q, "b", now)
	putForever(t, q, "c", now)
	getFor(t, q, time.Hour, ahead)
	if got := getOne(t, q, now); got == nil || string(got.Body) != "c" {
		t.Fatalf("got %+v", got)
	}
	getFor(t, q, time.Hour, ahead.Add(10*time.Second))
	later := now.Add(50 * time.Minute)
	for at, want := range map[time.Time]int{later: 0, later.Add(59 * time.Minute): 0} {
		if list, err := q.Get(5, time.Second, at); err != nil || len(list) != want {
			t.Fatalf("got %v, %v at %v", list, err, at)
		}
	}
	if list, err := q.Get(5, time.Second, later.Add(3*time.Hour)); err != nil || len(list) != 2 {
		t.Errorf("got %v, %v in the end", list, err)
	}
}

// A queue with more hidden messages than one transaction looks at.
func TestClockThatWasAheadWithManyMessages(t *testing.T) {
	t.Parallel()
	q := create(t, memory(t), "orders")
	list := make([]NewMessage, 2*maxRectified+100)
	for i := range list {
		list[i] = NewMessage{[]byte("own"), time.Hour}
	}
	if _, err := q.PutAll(list, Forever, epoch); err != nil {
		t.Fatal(err)
	}
	putOne(t, q, "plain", epoch.Add(24*time.Hour))
	if m := getOne(t, q, epoch); m == nil || string(m.Body) != "plain" {
		t.Errorf("got %+v", m)
	}
	var late bool
	if err := q.view(func(tx *store.Tx, id queueID) error {
		late = behind(tx, id, epoch.UnixNano())
		return nil
	}); err != nil || late {
		t.Errorf("the messages would be looked at again; %v", err)
	}
}
