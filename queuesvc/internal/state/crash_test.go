package state

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/storage/natsserver"
)

// crashClone returns a store on a copy of a folder that is in use: what a killed process leaves behind.
func crashClone(t *testing.T, dir string) *Store {
	t.Helper()
	var clone string
	eventually(t, func() error { // files may vanish meanwhile: JetStream removes a deleted stream's by and by
		clone = t.TempDir()
		return os.CopyFS(clone, os.DirFS(dir))
	})
	n := startNATS(t, natsserver.Config{Dir: clone, Relaxed: true})
	if _, list := problems(t, n); list != nil {
		t.Errorf("check after a crash: %v", list)
	}
	return open(t, n)
}

// After a crash JetStream reads its files again, in which replaced records still are. Nothing that was deleted may come
// back with them: not from slots that are free, that were used again, or that were trimmed away.
func TestDeletedMessagesStayDeletedAfterACrash(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	n := startNATS(t, natsserver.Config{Dir: dir, Relaxed: true})
	s := open(t, n)
	q := create(t, s, "orders")
	consume := func(n int) {
		t.Helper()
		for n > 0 {
			list, err := q.Get(ctx, min(n, 32), longTime, epoch)
			if err != nil || len(list) == 0 {
				t.Fatal(len(list), err)
			}
			for _, m := range list {
				if err := q.Delete(ctx, m.ID, m.Receipt, epoch); err != nil {
					t.Fatal(err)
				}
			}
			n -= len(list)
		}
	}
	check := func(step string, want int) {
		t.Helper()
		q := find(t, crashClone(t, dir), "orders")
		seen := 0
		for {
			list, err := q.Get(ctx, 32, longTime, epoch)
			if err != nil {
				t.Fatal(err)
			}
			if len(list) == 0 {
				break
			}
			seen += len(list)
			for _, m := range list {
				if string(m.Body) != "stays" {
					t.Errorf("%s: handed out %q", step, m.Body)
				}
			}
		}
		if seen != want {
			t.Errorf("%s: %d messages, want %d", step, seen, want)
		}
	}
	for range 100 {
		putOne(t, q, "goes", epoch)
	}
	consume(100)
	check("free slots", 0)
	for range 50 {
		putOne(t, q, "stays", epoch)
	}
	check("slots used again", 50)

	// The stream becomes so large that its old end is cut off.
	const many = 4200
	q.store.slack = 1 << 10
	goes := strings.Repeat("goes", 256)
	for range many {
		putOne(t, q, goes, epoch.Add(-1)) // before the others
	}
	consume(many)
	count(t, q, epoch)
	eventually(t, func() error {
		stream, err := s.js.Stream(ctx, q.stream)
		if err != nil {
			return err
		}
		q.mu.Lock()
		trimming := q.compacting
		q.mu.Unlock()
		if first := stream.CachedInfo().State.FirstSeq; first < 200 || trimming {
			return fmt.Errorf("the stream begins at %d", first)
		}
		return nil
	})
	check("after a trim", 50)
	if n := count(t, q, epoch); n != 50 {
		t.Errorf("%d messages after a trim, want 50", n)
	}
	putOne(t, q, "stays", epoch)
	check("put after a trim", 51)

	// A whole queue, deleted.
	if err := s.Delete(ctx, "acct", "orders"); err != nil {
		t.Fatal(err)
	}
	if _, err := crashClone(t, dir).Queue(ctx, "acct", "orders"); !errors.Is(err, ErrQueueNotFound) {
		t.Errorf("a deleted queue after a crash: %v", err)
	}
}

// longTime is longer than any test.
const longTime = 1 << 40

// A trim keeps what others have put meanwhile, though the index may not know of it yet.
func TestTrimKeepsWhatOthersPut(t *testing.T) {
	t.Parallel()
	first := startNATS(t, natsserver.Config{Listen: "127.0.0.1:0"})
	second := startNATS(t, natsserver.Config{URL: first.ClientURL()})
	mine := create(t, open(t, first), "orders")
	other := find(t, open(t, second), "orders")
	mine.store.quiet = 0
	count(t, mine, epoch)
	eventually(t, func() error {
		mine.mu.Lock()
		defer mine.mu.Unlock()
		if mine.loading != loaded {
			return errors.New("loading")
		}
		return nil
	})
	mine.stop() // from now on it is behind
	mine.stop = nil
	sent := putOne(t, other, "y", epoch)
	m := putOne(t, mine, "x", epoch)
	if err := mine.Delete(ctx, m.ID, m.Receipt, epoch); err != nil {
		t.Fatal(err)
	}
	if err := mine.cutOldEnd(ctx); err != nil {
		t.Fatal(err)
	}
	got, err := other.Get(ctx, 1, longTime, epoch)
	if err != nil || len(got) != 1 || got[0].ID != sent.ID {
		t.Errorf("got %v, %v; want what was put", got, err)
	}
}

// Deleted queues do not fill the catalog for ever.
func TestCatalogIsCompacted(t *testing.T) {
	t.Parallel()
	n := startNATS(t, natsserver.Config{})
	s := open(t, n)
	create(t, s, "kept")
	if err := s.SetProperties(ctx, "acct", []byte("p")); err != nil {
		t.Fatal(err)
	}
	for i := range compactLeast {
		name := fmt.Sprint("gone-", i)
		if err := s.write(ctx, "acct", name, 0, &catalogEntry{Incarnation: "x"}); err != nil {
			t.Fatal(err)
		}
		if err := s.edit(ctx, "acct", name, func(*catalogEntry) *catalogEntry { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	s.Close()
	s = open(t, n)
	stream, err := s.js.Stream(ctx, catalogStream)
	if err != nil {
		t.Fatal(err)
	}
	if msgs := stream.CachedInfo().State.Msgs; msgs != 4 || s.catalog.size() != len(s.catalog.accounts["acct"].queues)+1 {
		t.Errorf("%d records, of %d queues; want those of the queue, the properties, the receipts and the floor", msgs, len(s.catalog.accounts["acct"].queues))
	}
	putOne(t, find(t, s, "kept"), "x", epoch)
	if string(s.Properties("acct")) != "p" {
		t.Error("the properties are gone")
	}
	create(t, s, "gone-1")
	s.Close()
	s = open(t, n)
	find(t, s, "kept")
	find(t, s, "gone-1")
}
