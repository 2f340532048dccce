package state

import (
	"fmt"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/nats/natsserver"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// What was put while the clock was a day ahead is there when the clock is right: without a delay at once, with one when
// that has passed, for Get Messages and Peek Messages, also after a restart. What was handed out stays with its client.
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
				claimed := getOne(t, q, ahead)
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
				got := map[string]bool{}
				for m := getOne(t, q, now.Add(time.Hour)); m != nil; m = getOne(t, q, now.Add(time.Hour)) {
					got[string(m.Body)] = true
				}
				if !got["delayed"] || !got["own"] || got["claimed"] {
					t.Errorf("after an hour %v", got)
				}
				if err := q.Delete(claimed.ID, claimed.Receipt, now); err != nil {
					t.Errorf("the client of a message that was handed out deletes it: %v", err)
				}
			})
		}
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
