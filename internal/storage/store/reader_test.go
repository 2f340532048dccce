package store

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

// checkpointNow writes the memtable to the file. There is no other writer.
func checkpointNow(db *DB) error {
	if err := db.freeze(); err != nil {
		return err
	}
	return db.awaitCheckpoint()
}

// TestKeptReader: reads share a transaction of bbolt until the file changes, and none is open while the file is written
// or closed.
func TestKeptReader(t *testing.T) {
	t.Parallel()
	db := open(t, Options{})
	put(t, db, "b", "k", strings.Repeat("x", 1<<20)) // the file need not grow while it is read
	if err := checkpointNow(db); err != nil {
		t.Fatal(err)
	}
	put(t, db, "a", "k", "1")
	want(t, db, "a", "k", "1")
	first := db.readers.kept
	want(t, db, "a", "k", "1")
	if first == nil || db.readers.kept != first || first.users != 1 {
		t.Fatalf("after two reads %p is kept, after one %p", db.readers.kept, first)
	}
	err := db.View(func(outer *Tx) error {
		if outer.reader != first || first.users != 2 {
			t.Errorf("a read uses %p with %d users", outer.reader, first.users)
		}
		if err := checkpointNow(db); err != nil {
			return err
		}
		if db.readers.kept == first || first.users != 1 {
			t.Errorf("the checkpoint left %d users", first.users)
		}
		if v := outer.Get("a", []byte("k")); string(v) != "1" {
			t.Errorf("the read that began before the checkpoint finds %q", v)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want(t, db, "a", "k", "1")
	if next := db.readers.kept; next == nil || next == first || next.layers != db.layers.Load() {
		t.Errorf("after the checkpoint %p is kept", next)
	}
	if first.users != 0 {
		t.Errorf("the former reader has %d users", first.users)
	}
}

// TestKeptReaderWhileTheFileGrows reads while checkpoints move the mapping, which waits for open transactions.
func TestKeptReaderWhileTheFileGrows(t *testing.T) {
	t.Parallel()
	db := open(t, Options{})
	put(t, db, "a", "k 0", "v")
	var readers sync.WaitGroup
	done := make(chan struct{})
	for range 4 {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				want(t, db, "a", "k 0", "v")
			}
		})
	}
	for round := range 20 {
		err := db.Update(func(tx *Tx) error {
			for i := range 50 {
				tx.Put("b", fmt.Appendf(nil, "%d %d", round, i), make([]byte, 20_000))
			}
			return nil
		})
		if err == nil {
			err = checkpointNow(db)
		}
		if err != nil {
			t.Error(err)
			break
		}
	}
	close(done)
	readers.Wait()
}
