package state

import (
	"fmt"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/storage/natsserver"
)

// While the index is being read, records may come later than what callers have made of them.
func TestLateRecordsAreIgnored(t *testing.T) {
	t.Parallel()
	q := newQueue(nil, "acct", "orders", "s", "p.")
	q.loading = loading
	s := record{state: State{Inserted: 1, NextVisible: 1}}
	const deleted, cleared, newer slot = 1, 2, 3
	q.applyLocked(deleted, 7, 1, &record{kind: recordTombstone})
	q.applyLocked(deleted, 5, 1, &s)
	if q.index.get(deleted) != nil {
		t.Error("a deleted message came back")
	}
	q.takeFloor(10)
	q.applyLocked(cleared, 9, 1, &s)
	if q.index.get(cleared) != nil {
		t.Error("a cleared message came back")
	}
	q.applyLocked(newer, 12, 1, &record{state: State{Inserted: 1, NextVisible: 99}})
	q.applyLocked(newer, 11, 1, &s)
	if e := q.index.get(newer); e == nil || e.visible != 99 {
		t.Errorf("an old record replaced a newer one: %+v", e)
	}
}

// A message that is put after a start comes after those that were there before, though their records are still to be read.
func TestOrderAfterStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	n := startNATS(t, natsserver.Config{Dir: dir, Relaxed: true})
	s := open(t, n)
	for i := range 4 {
		putOne(t, create(t, s, fmt.Sprint("orders", i)), "first", epoch)
	}
	n.Close()
	s = open(t, startNATS(t, natsserver.Config{Dir: dir, Relaxed: true}))
	now := epoch.Add(time.Minute)
	for i := range 4 {
		q := find(t, s, fmt.Sprint("orders", i))
		putOne(t, q, "second", epoch.Add(time.Second))
		if i%2 == 0 {
			if shown, err := q.Peek(ctx, 1, now); err != nil || len(shown) != 1 || string(shown[0].Body) != "first" {
				t.Errorf("shown %v, %v", shown, err)
			}
			continue
		}
		for _, want := range []string{"first", "second"} {
			if got, err := q.Get(ctx, 1, time.Hour, now); err != nil || len(got) != 1 || string(got[0].Body) != want {
				t.Errorf("got %v, want %s: %v", got, want, err)
			}
		}
	}
}

// Get does not wait for the whole index, and misses nothing of it.
func TestGetWhileLoading(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	n := startNATS(t, natsserver.Config{Dir: dir, Relaxed: true})
	q := create(t, open(t, n), "orders")
	const total = 3000
	for i := range total {
		putOne(t, q, fmt.Sprint(i), epoch.Add(time.Duration(i)))
	}
	n.Close()
	q = find(t, open(t, startNATS(t, natsserver.Config{Dir: dir, Relaxed: true})), "orders")
	now := epoch.Add(time.Second)
	seen := make(map[ID]bool)
	for {
		list, err := q.Get(ctx, 32, time.Hour, now)
		if err != nil {
			t.Fatal(err)
		}
		if len(list) == 0 {
			break
		}
		for _, m := range list {
			if seen[m.ID] {
				t.Fatalf("%s was handed out twice", m.ID)
			}
			seen[m.ID] = true
		}
	}
	if len(seen) != total {
		t.Errorf("%d messages were handed out, want %d", len(seen), total)
	}
}
