package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/natscluster"
)

// A transaction of a checkpoint has as many keys as belong in, or fill, a limited number of pages, and the last one the
// progress of the file, too.
func TestCheckpointsAreSplitByPages(t *testing.T) {
	t.Parallel()
	db := open(t, Options{Relaxed: true})
	db.memtableSize = 64 << 20
	transactions := 0
	db.fault = func() error { transactions++; return nil }
	// checkpoint puts keys and returns the number of transactions that write them to the file.
	checkpoint := func(keys int, key func(i int) string, value string) int {
		check.OK(t, db.Update(func(tx *Tx) error {
			for i := range keys {
				tx.Put("a", []byte(key(i)), []byte(value))
				if i < 10 {
					tx.Put("b", []byte(key(i)), nil) // in the same transaction as the last of the others
				}
			}
			return nil
		}))
		transactions = 0
		check.OK(t, db.freeze())
		check.OK(t, db.awaitCheckpoint())
		return transactions
	}
	key := func(i int) string { return fmt.Sprintf("%06d", i) }
	for _, tc := range []struct {
		name  string
		keys  int
		key   func(int) string
		value string
		want  func(n int) bool
	}{
		{"values that fill 1,500 pages", 6000, key, strings.Repeat("x", 1024), func(n int) bool { return n == 3 }},
		{"one key in each leaf", 1500, func(i int) string { return key(4*i) + " " }, "",
			func(n int) bool { return n >= 2 && n <= 4 }},
		{"small keys in few leaves", 3000, func(i int) string { return key(0) + key(i) }, "",
			func(n int) bool { return n == 1 }},
		{"too many small keys", 2*chunkKeys - 10, func(i int) string { return key(1) + key(i) }, "",
			func(n int) bool { return n == 2 }},
	} {
		if n := checkpoint(tc.keys, tc.key, tc.value); !tc.want(n) {
			t.Errorf("%s: %d transactions", tc.name, n)
		}
	}
}

// A checkpoint that failed is tried again by a write that comes when the memtable has grown to its size again, and not
// only when it has grown to the size at which writers wait.
func TestAFailedCheckpointIsTriedAgain(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "db")
	db := openAt(t, path, Options{Relaxed: true})
	db.memtableSize = 20 * entryOverhead
	var full atomic.Bool
	full.Store(true)
	db.fault = func() error {
		if full.Load() {
			return &os.PathError{Op: "write", Path: path, Err: syscall.ENOSPC}
		}
		return nil
	}
	n := 0
	fill := func(until func(*layers) bool) {
		t.Helper()
		for ; !until(db.layers.Load()); n++ {
			if n > 1000 {
				t.Fatal("the memtable does not grow")
			}
			put(t, db, "a", fmt.Sprint(n), "v")
		}
	}
	fill(func(l *layers) bool { return l.frozen != nil })
	if err := db.awaitCheckpoint(); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the checkpoint: %v, want ENOSPC", err)
	}
	fill(func(l *layers) bool { return l.active.bytes >= db.memtableSize })
	full.Store(false)
	put(t, db, "a", "again", "v")
	if err := db.awaitCheckpoint(); err != nil || db.layers.Load().frozen != nil {
		t.Errorf("after the next write: %v, and the memtable was written: %v", err, db.layers.Load().frozen == nil)
	}
}

// What comes and goes within a memtable of the given size never gets to the file.
func TestMemtableSize(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		size    int
		reaches bool
	}{{64 << 10, true}, {1 << 20, false}} {
		db := open(t, Options{Relaxed: true, MemtableSize: tc.size})
		transactions := 0
		db.fault = func() error { transactions++; return nil }
		value := make([]byte, 1024)
		for i := range 200 {
			check.OK(t, db.Update(func(tx *Tx) error {
				tx.Put("a", []byte{byte(i)}, value)
				tx.Delete("a", []byte{byte(i - 20)})
				return nil
			}))
		}
		check.OK(t, db.awaitCheckpoint())
		if got := transactions > 0; got != tc.reaches {
			t.Errorf("with memtables of %d bytes the file got %d transactions", tc.size, transactions)
		}
	}
}

// An idle store writes its memtable to the file on request: the memory is free, the values are there, and a copy of the
// file without the log has them.
func TestWriteOut(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, db := range map[string]*DB{
		"durable":   openAt(t, filepath.Join(dir, "durable"), Options{}),
		"ephemeral": openAt(t, filepath.Join(dir, "ephemeral"), Options{Ephemeral: true}),
		"private": openAt(t, filepath.Join(dir, "private"),
			Options{Log: openLog(t, natscluster.Start(t, 1), 0, "alone"), Private: true, ReadLocal: true}),
	} {
		for round := range 3 {
			key := []byte{byte(round)}
			check.OK(t, db.Update(func(tx *Tx) error { tx.Put("a", key, key); return nil }))
			wrote, err := db.WriteOut()
			check.OK(t, err)
			if l := db.layers.Load(); !wrote || l.frozen != nil || !l.active.empty() {
				t.Errorf("%s, round %d: wrote %v, and a memtable is left", name, round, wrote)
			}
			if wrote, err = db.WriteOut(); wrote || err != nil {
				t.Errorf("%s: an empty memtable was written: %v, %v", name, wrote, err)
			}
			check.OK(t, db.View(func(tx *Tx) error {
				for i := range round + 1 {
					if got := tx.Get("a", []byte{byte(i)}); len(got) != 1 || got[0] != byte(i) {
						t.Errorf("%s: key %d has %v", name, i, got)
					}
				}
				return nil
			}))
		}
	}
}

// Writers, requests to write out, and Close go together: nothing acknowledged is lost.
func TestWriteOutBesideWritersAndClose(t *testing.T) {
	t.Parallel()
	t.Run("alone", func(t *testing.T) {
		t.Parallel()
		writeOutBesideWriters(t, func() Options { return Options{Relaxed: true} })
	})
	t.Run("private", func(t *testing.T) {
		t.Parallel()
		c := natscluster.Start(t, 1)
		writeOutBesideWriters(t, func() Options {
			return Options{Log: openLog(t, c, 0, "alone"), Private: true, ReadLocal: true}
		})
	})
}

func writeOutBesideWriters(t *testing.T, options func() Options) {
	path := filepath.Join(t.TempDir(), "db")
	db := openAt(t, path, options())
	var wg sync.WaitGroup
	var acked [3]int
	begun := make(chan struct{}, len(acked))
	for w := range acked {
		wg.Go(func() {
			for i := 0; ; i++ {
				err := db.Update(func(tx *Tx) error { tx.Put("a", fmt.Appendf(nil, "%d-%d", w, i), []byte("v")); return nil })
				if err != nil {
					if !errors.Is(err, ErrClosed) {
						t.Error(err)
					}
					return
				}
				if acked[w] = i + 1; i == 100 {
					begun <- struct{}{}
				}
			}
		})
	}
	for range 2 {
		wg.Go(func() {
			for {
				if _, err := db.WriteOut(); err != nil {
					if !errors.Is(err, ErrClosed) {
						t.Error(err)
					}
					return
				}
				if db.isClosed() {
					return
				}
			}
		})
	}
	for range acked {
		<-begun
	}
	check.OK(t, db.Close())
	wg.Wait()
	db = openAt(t, path, options())
	check.OK(t, db.View(func(tx *Tx) error {
		for w, n := range acked {
			for i := range n {
				if tx.Get("a", fmt.Appendf(nil, "%d-%d", w, i)) == nil {
					t.Errorf("%d-%d is lost", w, i)
				}
			}
		}
		return nil
	}))
}
