package queue

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// Messages that are deleted together leave the count right, whichever of the receipts are valid.
func TestMessagesDeletedTogetherAreCounted(t *testing.T) {
	t.Parallel()
	s := memory(t)
	q := create(t, s, "together")
	for range 4 {
		putOne(t, q, "x", epoch)
	}
	list := check.Must(q.Get(4, time.Hour, epoch))(t)
	held := make([]Held, len(list))
	for i, m := range list {
		held[i] = Held{m.ID, m.Receipt}
	}
	nowhere := []Held{{held[0].ID, held[1].Receipt}}
	if outcomes := check.Must(q.DeleteAll(nowhere, epoch))(t); len(outcomes) != 1 || outcomes[0] == nil ||
		count(t, q, epoch) != 4 {
		t.Errorf("with the receipt of another one: %v, %d messages", outcomes, count(t, q, epoch))
	}
	if outcomes := check.Must(q.DeleteAll(held[:3], epoch))(t); errors.Join(outcomes...) != nil ||
		count(t, q, epoch) != 1 {
		t.Errorf("three of four: %v, %d messages", outcomes, count(t, q, epoch))
	}
	if outcomes := check.Must(q.DeleteAll(held, epoch))(t); outcomes[0] == nil || outcomes[3] != nil ||
		count(t, q, epoch) != 0 {
		t.Errorf("three that are gone and one: %v, %d messages", outcomes, count(t, q, epoch))
	}
	wantConsistent(t, s)
}

// The visible messages are those that Get would return.
func TestVisibleMessagesAreCounted(t *testing.T) {
	t.Parallel()
	q := create(t, memory(t), "visible")
	for range 3 {
		putOne(t, q, "x", epoch)
	}
	check.Must(q.Put([]byte("later"), time.Hour, Forever, epoch))(t)
	check.Must(q.Put([]byte("short"), 0, time.Minute, epoch))(t)
	getOne(t, q, epoch)
	for _, x := range []struct {
		at   time.Duration
		want Properties
	}{{0, Properties{Messages: 5, Visible: 3}}, {2 * time.Minute, Properties{Messages: 4, Visible: 3}}} {
		at, want, now := x.at, x.want, epoch.Add(x.at)
		p := check.Must(q.Properties(t.Context(), now, true))(t)
		if p.Messages != want.Messages || p.Visible != want.Visible {
			t.Errorf("after %v: %+v, want %+v", at, p, want)
		}
		if p := check.Must(q.Properties(t.Context(), now, false))(t); p.Visible != 0 {
			t.Errorf("visible messages were not asked for: %+v", p)
		}
	}
}

// A queue whose record is damaged is reported, and neither served as one without metadata nor cleared.
func TestDamagedRecordOfAQueue(t *testing.T) {
	t.Parallel()
	if _, _, err := decodeQueue([]byte("short")); !errors.Is(err, ErrDamaged) {
		t.Errorf("a short record: %v", err)
	}
	q := create(t, memory(t), "damaged")
	putOne(t, q, "x", epoch)
	check.OK(t, q.store.db.Update(func(tx *store.Tx) error {
		tx.Put(bucketQueues, q.key, append(tx.Get(bucketQueues, q.key)[:8:8], "{no JSON"...))
		return nil
	}))
	if _, err := q.Properties(context.Background(), epoch, false); !errors.Is(err, ErrDamaged) {
		t.Errorf("properties: %v", err)
	}
	if err := q.Clear(); !errors.Is(err, ErrDamaged) {
		t.Errorf("clear: %v", err)
	}
	if getOne(t, q, epoch) == nil {
		t.Error("the message was cleared")
	}
}

// A clock is behind a queue from a minute on, and looks again at the moment at which the next message is due.
func TestBehind(t *testing.T) {
	t.Parallel()
	q := create(t, memory(t), "behind")
	now := epoch.UnixNano()
	for _, c := range []struct {
		counters counters
		want     bool
	}{
		{counters{latest: now + clockTolerance}, false}, {counters{latest: now + clockTolerance + 1}, true},
		{counters{again: now}, true}, {counters{again: now + 1}, false}, {counters{again: now - 1}, true},
		{counters{}, false},
	} {
		check.OK(t, q.update("test", func(tx *store.Tx, id queueID) error {
			tx.Put(bucketCounters, id.key(), c.counters.encode())
			return nil
		}))
		check.OK(t, q.view(func(tx *store.Tx, id queueID) error {
			if got := behind(tx, id, now); got != c.want {
				t.Errorf("%+v: %v", c.counters, got)
			}
			return nil
		}))
	}
}

// Messages that were handed out by a clock that was ahead wait for their own timeouts, counted from the request that
// has noticed, also when another one was due before.
func TestTimeoutsOfAClockThatWasAhead(t *testing.T) {
	t.Parallel()
	q := create(t, memory(t), "ahead")
	ahead := epoch.Add(24 * time.Hour)
	putForever(t, q, "an hour", ahead)
	putForever(t, q, "two hours", ahead)
	if a, b := getFor(t, q, time.Hour, ahead), getFor(t, q, 2*time.Hour, ahead); a == nil || b == nil {
		t.Fatal("the messages are not handed out")
	}
	get := func(timeout, at time.Duration) string {
		t.Helper()
		list := check.Must(q.Get(1, timeout, epoch.Add(at)))(t)
		if len(list) == 0 {
			return ""
		}
		return string(list[0].Body)
	}
	if got := get(time.Hour, 0); got != "" { // the clock is right, and notices
		t.Fatalf("%q is handed out twice", got)
	}
	if got := get(10*time.Hour, time.Hour+time.Second); got != "an hour" {
		t.Fatalf("after an hour: %q", got)
	}
	if got := get(time.Hour, 2*time.Hour-time.Minute); got != "" {
		t.Fatalf("%q is handed out before its timeout", got)
	}
	if got := get(time.Hour, 2*time.Hour+time.Second); got != "two hours" {
		t.Fatalf("after two hours: %q", got)
	}
}
