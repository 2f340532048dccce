package state

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/storage/natsserver"
)

// blockBytes returns how large a queue's files are.
func blockBytes(t *testing.T, dir string, q *Queue) (size int64) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "jetstream", "*", "streams", q.stream, "msgs", "*.blk"))
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil {
			size += info.Size()
		}
	}
	return size
}

// One old message does not keep a queue's files from shrinking: it is copied to the new end, and its receipt stays good.
func TestOldMessagesDoNotPinTheStream(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	n := startNATS(t, natsserver.Config{Dir: dir, Relaxed: true})
	s := open(t, n)
	s.slack = 1 << 20
	q := create(t, s, "orders")
	old := []Message{putOne(t, q, "held", epoch), putOne(t, q, "waits", epoch)}
	held := getOne(t, q, epoch)
	if held == nil || string(held.Body) != "held" {
		t.Fatalf("got %v", held)
	}
	count(t, q, epoch)
	body := string(bytes.Repeat([]byte("x"), 60<<10))
	written := int64(0)
	for written < 64<<20 {
		m := putOne(t, q, body, epoch)
		written += int64(len(body))
		if err := q.Delete(ctx, m.ID, m.Receipt, epoch); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, func() error {
		q.mu.Lock()
		busy := q.compacting
		q.mu.Unlock()
		if size := blockBytes(t, dir, q); busy || size > 24<<20 {
			return fmt.Errorf("%d bytes on disk after %d were written", size, written)
		}
		return nil
	})
	check := func(q *Queue) {
		t.Helper()
		q.mu.Lock()
		e := q.index.get(held.ID.slot())
		q.mu.Unlock()
		if e != nil && e.seq() == uint64(held.Receipt) {
			t.Error("the message was not copied: the test shows nothing")
		}
		changed, err := q.Update(ctx, held.ID, held.Receipt, nil, time.Minute, epoch)
		if err != nil {
			t.Fatalf("the receipt of a copied message: %v", err)
		}
		wantErr(t, "the receipt before", q.Delete(ctx, held.ID, held.Receipt, epoch), ErrReceiptMismatch)
		if err := q.Delete(ctx, held.ID, changed.Receipt, epoch); err != nil {
			t.Error(err)
		}
		m := getOne(t, q, epoch)
		if m == nil || m.ID != old[1].ID || m.DequeueCount != 1 {
			t.Errorf("got %v, want the old message that waits", m)
		}
	}
	again := find(t, crashClone(t, dir), "orders")
	count(t, again, epoch)
	check(again)
	check(q)
}
