package queue

import (
	"bytes"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/nats/natsserver"
	"github.com/lazuli-storage/lazuli/internal/storage/replog"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// An account that creates, uses and deletes its queue as fast as it can, with several clients, disturbs no other
// account.
func TestCreatingAndDeletingDisturbsNoOtherAccount(t *testing.T) {
	t.Parallel()
	n := startNATS(t, natsserver.Config{Dir: t.TempDir()})
	s := open(t, n)
	var stop atomic.Bool
	var others sync.WaitGroup
	for range 4 {
		others.Go(func() {
			q := s.Queue("other", "queue")
			for !stop.Load() { // each of them may find no queue, or one of another client
				_, _ = s.Create("other", "queue", nil)
				_, _ = q.Put([]byte("x"), 0, Forever, epoch)
				_ = s.Delete("other", "queue")
				_, _ = q.Get(1, time.Minute, epoch)
				_ = q.Clear()
			}
		})
	}
	q := create(t, s, "orders")
	for i := range 300 {
		putOne(t, q, fmt.Sprint(i), epoch)
		m := getOne(t, q, epoch)
		if m == nil || string(m.Body) != fmt.Sprint(i) {
			t.Fatalf("got %v, want message %d", m, i)
		}
		if err := q.Delete(m.ID, m.Receipt, epoch); err != nil {
			t.Fatal(err)
		}
		if err := n.Healthy(); err != nil {
			t.Fatal(err)
		}
	}
	stop.Store(true)
	others.Wait()
	wantConsistent(t, s)
}

// fill puts messages with many callers, as one group of commits after another.
func fill(t testing.TB, q *Queue, n int, visibility, ttl time.Duration) {
	t.Helper()
	var all sync.WaitGroup
	for c := range 32 {
		all.Go(func() {
			for i := c; i < n; i += 32 {
				if _, err := q.Put([]byte("x"), visibility, ttl, epoch); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}

// The work of Get Messages, Peek Messages and Clear Messages does not grow with what is hidden, expired or deleted.
func TestWorkIsBoundedByTheAnswer(t *testing.T) {
	if testing.Short() {
		t.Skip("puts tens of thousands of messages")
	}
	s := memory(t)
	small, large := create(t, s, "small"), create(t, s, "large")
	fill(t, small, 10, time.Hour, 2*time.Hour)
	fill(t, large, 20_000, time.Hour, 2*time.Hour)
	allocations := func(do func(q *Queue)) (few, many float64) {
		return testing.AllocsPerRun(20, func() { do(small) }), testing.AllocsPerRun(20, func() { do(large) })
	}
	compare := func(what string, do func(q *Queue)) {
		t.Helper()
		if few, many := allocations(do); many > 2*few+50 {
			t.Errorf("%s allocates %.0f times with many messages, and %.0f times with few", what, many, few)
		}
	}
	none := func(list []Message, err error) {
		if err != nil || len(list) > 0 {
			t.Errorf("%d messages, %v", len(list), err)
		}
	}
	compare("Peek of hidden messages", func(q *Queue) { none(q.Peek(32, epoch)) })
	compare("Get of hidden messages", func(q *Queue) { none(q.Get(32, time.Minute, epoch)) })
	compare("a page of hidden messages", func(q *Queue) {
		if list, _, err := q.PeekAll(5, Position{}, epoch); err != nil || len(list) != 5 {
			t.Errorf("%d messages, %v", len(list), err)
		}
	})
	// All have expired: the first request removes them, and the others find nothing.
	late := epoch.Add(3 * time.Hour)
	none(large.Peek(32, late))
	if n := count(t, large, late); n != 0 {
		t.Errorf("%d messages are left", n)
	}
	compare("Peek of expired messages", func(q *Queue) { none(q.Peek(32, late)) })
	compare("Get of expired messages", func(q *Queue) { none(q.Get(32, time.Minute, late)) })
	wantConsistent(t, s)

	full := create(t, s, "full")
	fill(t, full, 20_000, 0, Forever)
	before := s.db.Damages()
	if few, many := testing.AllocsPerRun(1, func() { _ = small.Clear() }),
		testing.AllocsPerRun(1, func() { _ = full.Clear() }); many > 20*few+2000 || before != 0 {
		t.Errorf("Clear allocates %.0f times with many messages, and %.0f times with few", many, few)
	}
	if n := count(t, full, epoch); n != 0 {
		t.Errorf("%d messages after Clear", n)
	}
	putOne(t, full, "y", epoch)
	if m := getOne(t, full, epoch); m == nil || string(m.Body) != "y" {
		t.Errorf("got %v after Clear", m)
	}
	eventually(t, func() error { // the rest goes in the background
		var left int
		g := garbage{db: s.db, batch: cleanBatch}
		for more := true; more; left++ {
			var err error
			if more, err = g.step(); err != nil {
				return err
			}
		}
		return nil
	})
	wantConsistent(t, s)
}

// Of several nodes, the one that leads the log removes expired messages and those of deleted queues.
func TestTheLeaderCleans(t *testing.T) {
	t.Parallel()
	ctx, late := t.Context(), epoch.Add(3*time.Hour)
	n := startNATS(t, natsserver.Config{Listen: "127.0.0.1:0"})
	var leader atomic.Int32
	var nodes [3]*Store
	for i := range nodes {
		c := LogConfig(startNATS(t, natsserver.Config{URL: n.ClientURL()}).Server, LogName, slog.New(slog.DiscardHandler))
		c.Leads = func(string) bool { return leader.Load() == int32(i) }
		log, err := replog.Open(ctx, c)
		if err != nil {
			t.Fatal(err)
		}
		nodes[i], err = Open(filepath.Join(t.TempDir(), "queues.db"), Options{Now: func() time.Time { return late },
			Store: store.Options{Log: log, Ephemeral: true}, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = nodes[i].Close() })
	}
	left := func() (n int) {
		if err := nodes[0].db.View(func(tx *store.Tx) error {
			n = 0
			for c, k := tx.Cursor(bucketMessages), []byte{0}; k != nil; n++ {
				if k, _ = c.Seek(append(bytes.Clone(k), 0)); k == nil {
					break
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return n
	}
	leader.Store(-1)
	fill(t, create(t, nodes[0], "expired"), 600, 0, time.Hour)
	fill(t, create(t, nodes[0], "deleted"), 600, 0, Forever)
	if err := nodes[0].Delete("acct", "deleted"); err != nil {
		t.Fatal(err)
	}
	for _, s := range nodes {
		s.clean(ctx)
	}
	if n := left(); n != 1200 {
		t.Errorf("%d messages are left without a leader, want 1200", n)
	}
	before, _ := nodes[0].Database().Replication()
	leader.Store(1)
	nodes[0].clean(ctx)
	nodes[1].clean(ctx)
	if after, _ := nodes[0].Database().Replication(); after.Appends > before.Appends {
		t.Error("a node that does not lead has removed messages")
	}
	if n := left(); n != 0 {
		t.Errorf("%d messages are left after the leader has cleaned", n)
	}
	wantConsistent(t, nodes[2])
}

// peekEverything returns all messages of a queue.
func peekEverything(q *Queue, now time.Time) (all []Message, err error) {
	for after := (Position{}); ; {
		page, next, err := q.PeekAll(1000, after, now)
		if all = append(all, page...); err != nil || next == (Position{}) {
			return all, err
		}
		after = next
	}
}
