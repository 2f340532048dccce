package state

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/storage/natsserver"
)

// After Clear Messages, a crash brings nothing back: neither the messages that were cleared nor those that had been deleted one by one
// before. JetStream reads records again then that were replaced or purged, and Get answers before all of them have been read.
func TestClearedMessagesStayClearedAfterACrash(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, startNATS(t, natsserver.Config{Dir: dir, Relaxed: true}))
	q := create(t, s, "orders")
	const many = 1000
	for range many {
		putOne(t, q, "cleared", epoch)
	}
	for got := 0; got < many; {
		list, err := q.Get(ctx, 32, time.Second, epoch)
		if err != nil || len(list) == 0 {
			t.Fatal(len(list), err)
		}
		for i, m := range list {
			if i%4 == 0 {
				if err := q.Delete(ctx, m.ID, m.Receipt, epoch); err != nil {
					t.Fatal(err)
				}
			}
		}
		got += len(list)
	}
	if err := q.Clear(ctx); err != nil {
		t.Fatal(err)
	}
	// Without the floor in the catalog, Get could hand out cleared messages until the record that marks their end has been read.
	if floor := s.catalog.get("acct", "orders").entry.Floor; floor <= many {
		t.Errorf("the floor in the catalog is %d after Clear, which is not above the cleared messages", floor)
	}
	for i := range 10 {
		putOne(t, q, fmt.Sprint("kept ", i), epoch)
	}
	later := epoch.Add(10 * time.Second)
	for round := range 3 {
		q := find(t, crashClone(t, dir), "orders")
		seen := 0
		for {
			list, err := q.Get(ctx, 32, longTime, later)
			if err != nil {
				t.Fatal(err)
			}
			if len(list) == 0 {
				break
			}
			for _, m := range list {
				if string(m.Body) == "cleared" {
					t.Fatalf("round %d: a cleared message is back", round)
				}
			}
			seen += len(list)
		}
		if seen != 10 {
			t.Errorf("round %d: %d messages, want the 10 that were put after Clear", round, seen)
		}
		if n := count(t, q, later); n != 10 {
			t.Errorf("round %d: %d messages are counted, want 10", round, n)
		}
	}
}

// The slots of cleared messages are used again, though their records are still there.
func testPutAfterClear(t *testing.T, s *Store) {
	q := create(t, s, "orders")
	held := make([]Message, 0, 20)
	for range 20 {
		putOne(t, q, "x", epoch)
		held = append(held, *getOne(t, q, epoch))
	}
	if err := q.Clear(ctx); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		putOne(t, q, "y", epoch)
	}
	for _, m := range held {
		wantErr(t, "deleting what was cleared", q.Delete(ctx, m.ID, m.Receipt, epoch), ErrMessageNotFound)
	}
	for range 20 {
		if m := getOne(t, q, epoch); m == nil || string(m.Body) != "y" {
			t.Fatalf("got %v, want a message that was put after Clear", m)
		}
	}
}

// Clear removes every message that was put before it, also those that are being changed, or copied to the stream's new end, at the same time.
func TestClearRemovesMessagesThatAreBeingChanged(t *testing.T) {
	t.Parallel()
	type work func(q *Queue, messages []Message) error
	for name, during := range map[string]work{
		"copied": func(q *Queue, messages []Message) error {
			batch := make([]entry, len(messages))
			for i, m := range messages {
				batch[i] = entry{slot: m.ID.slot(), seq: uint64(m.Receipt)}
			}
			_, err := q.copy(ctx, batch)
			return err
		},
		"received": func(q *Queue, messages []Message) error {
			_, err := q.Get(ctx, len(messages), time.Hour, epoch.Add(time.Minute))
			return err
		},
		"updated": func(q *Queue, messages []Message) error {
			for _, m := range messages {
				if _, err := q.Update(ctx, m.ID, m.Receipt, nil, time.Hour, epoch); err != nil && !errors.Is(err, ErrMessageNotFound) {
					return err
				}
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := create(t, memory(t), "orders")
			for round := range 50 {
				var messages []Message
				for range 16 {
					putOne(t, q, "x", epoch)
				}
				for len(messages) < 16 {
					list, err := q.Get(ctx, 16, time.Second, epoch)
					if err != nil || len(list) == 0 {
						t.Fatal(len(list), err)
					}
					messages = append(messages, list...)
				}
				done := make(chan error)
				go func() { done <- during(q, messages) }()
				if err := q.Clear(ctx); err != nil {
					t.Error(err)
				}
				if err := <-done; err != nil {
					t.Error(err)
				}
				if n := count(t, q, epoch); n != 0 {
					t.Fatalf("round %d: %d messages after Clear, want 0", round, n)
				}
			}
		})
	}
}
