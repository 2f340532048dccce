package store

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/test/natscluster"
)

// implementation is a way to open a store; the contract holds for each.
type implementation struct {
	name    string
	o       Options
	small   bool // memtables of a few entries, so that everything is read from the file
	forgets bool // nothing survives Close
	servers int  // of the replicated log; 0 for none
	cluster *natscluster.Cluster
}

var implementations = []implementation{
	{name: "durable", o: Options{}},
	{name: "durable, read from the file", o: Options{MaxMapped: 1}, small: true},
	{name: "relaxed", o: Options{Relaxed: true}},
	{name: "in memory", o: Options{Ephemeral: true}, forgets: true},
	{name: "in memory, read from the file", o: Options{Ephemeral: true}, small: true, forgets: true},
	{name: "replicated by one server", servers: 1},
	{name: "replicated by three servers", servers: 3},
	{name: "replicated by three servers, read from the file", o: Options{MaxMapped: 1}, small: true, servers: 3},
}

// TestContract holds what View, Update and cursors promise, for every implementation.
func TestContract(t *testing.T) {
	t.Parallel()
	for _, im := range implementations {
		t.Run(im.name, func(t *testing.T) {
			if im.servers > 1 && testing.Short() {
				t.Skip("starts three servers")
			}
			t.Parallel()
			if im.servers > 0 {
				im.cluster = natscluster.Start(t, im.servers)
			}
			for _, c := range []struct {
				name string
				test func(*testing.T, *DB)
			}{
				{"a value that was put is read", contractPut},
				{"an empty value is not an absent one", contractEmpty},
				{"an Update sees its own writes", contractOwnWrites},
				{"an Update that fails leaves nothing", contractFailure},
				{"a closure that panics leaves nothing", contractPanic},
				{"a View sees one state throughout", contractSnapshot},
				{"a cursor yields keys in order", contractCursor},
				{"a cursor stays at the end", contractEnd},
				{"a cursor sees later writes of its Update", contractCursorWrites},
				{"sizes out of range are refused", contractSizes},
				{"concurrent Updates are serial", contractSerial},
				{"after Close nothing is served", contractClosed},
			} {
				t.Run(c.name, func(t *testing.T) {
					t.Parallel()
					db := im.open(t, filepath.Join(t.TempDir(), "db"))
					c.test(t, db)
				})
			}
			t.Run("what was acknowledged survives Close", func(t *testing.T) {
				t.Parallel()
				path := filepath.Join(t.TempDir(), "db")
				db := im.open(t, path)
				put(t, db, "a", "k", "v")
				closeChecked(t, db)
				db = im.open(t, path)
				if im.forgets {
					want(t, db, "a", "k", "")
				} else {
					want(t, db, "a", "k", "v")
				}
			})
		})
	}
}

func (im implementation) open(t *testing.T, path string) *DB {
	o := im.o
	if im.servers > 0 {
		o.Log = openLog(t, im.cluster, 0, logName(path))
	}
	db := openAt(t, path, o)
	if im.small {
		db.memtableSize = 2 * entryOverhead
	}
	return db
}

func contractPut(t *testing.T, db *DB) {
	for i := range 200 {
		put(t, db, "a", fmt.Sprint(i%50), fmt.Sprint(i))
	}
	for i := range 50 {
		want(t, db, "a", fmt.Sprint(i), fmt.Sprint(150+i))
		want(t, db, "b", fmt.Sprint(i), "")
	}
	if err := db.Update(func(tx *Tx) error {
		tx.Delete("a", []byte("7"))
		tx.Delete("a",
			[]byte("none"))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	want(t, db, "a", "7", "")
}

func contractEmpty(t *testing.T, db *DB) {
	put(t, db, "a", "empty", "")
	for range 5 {
		put(t, db, "a", "other", "x") // moves it to the file
	}
	err := db.View(func(tx *Tx) error {
		if v := tx.Get("a", []byte("empty")); v == nil || len(v) > 0 {
			t.Errorf("the empty value is %v", v)
		}
		if v := tx.Get("a", []byte("absent")); v != nil {
			t.Errorf("the absent value is %q", v)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func contractOwnWrites(t *testing.T, db *DB) {
	put(t, db, "a", "old", "1")
	err := db.Update(func(tx *Tx) error {
		tx.Put("a", []byte("new"), []byte("2"))
		tx.Delete("a", []byte("old"))
		if string(tx.Get("a", []byte("new"))) != "2" || tx.Get("a", []byte("old")) != nil {
			t.Error("the closure does not see its own writes")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func contractFailure(t *testing.T, db *DB) {
	put(t, db, "a", "k", "1")
	err := db.Update(func(tx *Tx) error { tx.Put("a", []byte("k"), []byte("2")); return errAbort })
	if !errors.Is(err, errAbort) {
		t.Errorf("update: %v, want the closure's error", err)
	}
	want(t, db, "a", "k", "1")
}

func contractPanic(t *testing.T, db *DB) {
	func() {
		defer func() {
			var p *Panic
			if err, ok := recover().(error); !ok || !errors.As(err, &p) || p.Value != "boom" {
				t.Errorf("Update panicked with %v, want *Panic", err)
			}
		}()
		_ = db.Update(func(tx *Tx) error { tx.Put("a", []byte("k"), []byte("2")); panic("boom") })
	}()
	want(t, db, "a", "k", "")
	put(t, db, "a", "k", "3")
}

func contractSnapshot(t *testing.T, db *DB) {
	put(t, db, "a", "k", "1")
	err := db.View(func(tx *Tx) error {
		done := make(chan struct{})
		go func() {
			defer close(done)
			for i := range 20 {
				put(t, db, "a", "k", fmt.Sprint(10+i))
				put(t, db, "a", fmt.Sprint("more", i), "x")
			}
		}()
		<-done
		if v := tx.Get("a", []byte("k")); string(v) != "1" {
			t.Errorf("k is %q in a View that began before", v)
		}
		c := tx.Cursor("a")
		if k, _ := c.Seek(nil); string(k) != "k" {
			t.Errorf("the first key is %q", k)
		}
		if k, _ := c.Next(); k != nil {
			t.Errorf("a later key is seen: %q", k)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want(t, db, "a", "k", "29")
}

// walk returns the keys from a key on.
func walk(c *Cursor, from []byte) (keys []string) {
	for k, _ := c.Seek(from); k != nil; k, _ = c.Next() {
		keys = append(keys, string(k))
	}
	return keys
}

func contractCursor(t *testing.T, db *DB) {
	for _, k := range []string{"b", "a", "d", "aa", "c", "\x00"} {
		put(t, db, "a", k, "v"+k)
	}
	put(t, db, "b", "bb", "x")
	err := db.View(func(tx *Tx) error {
		for _, open := range []func(*Tx, Bucket) *Cursor{(*Tx).Cursor, (*Tx).Scan} {
			if got := strings.Join(walk(open(tx, "a"), nil), " "); got != "\x00 a aa b c d" {
				t.Errorf("all keys: %q", got)
			}
			if got := strings.Join(walk(open(tx, "a"), []byte("ab")), " "); got != "b c d" {
				t.Errorf("keys from ab: %q", got)
			}
			c := open(tx, "a")
			if k, v := c.Next(); string(k) != "\x00" || string(v) != "v\x00" {
				t.Errorf("Next without Seek: %q, %q", k, v)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func contractEnd(t *testing.T, db *DB) {
	put(t, db, "a", "k", "1")
	err := db.View(func(tx *Tx) error {
		c := tx.Cursor("a")
		if k, _ := c.Seek([]byte("z")); k != nil {
			t.Errorf("past the end: %q", k)
		}
		for range 3 {
			if k, v := c.Next(); k != nil || v != nil {
				t.Errorf("Next at the end: %q", k)
			}
		}
		if k, _ := tx.Cursor("b").Seek(nil); k != nil {
			t.Errorf("an empty bucket has %q", k)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func contractCursorWrites(t *testing.T, db *DB) {
	for _, k := range []string{"a", "c", "e"} {
		put(t, db, "a", k, "1")
	}
	err := db.Update(func(tx *Tx) error {
		c := tx.Cursor("a")
		var keys []string
		for k, _ := c.Seek(nil); k != nil; k, _ = c.Next() {
			keys = append(keys, string(k))
			switch string(k) {
			case "a":
				tx.Put("a", []byte("b"), []byte("2"))
				tx.Delete("a", []byte("c"))
			case "e":
				tx.Put("a", []byte("d"), []byte("2")) // behind the cursor
			}
		}
		if got := strings.Join(keys, ""); got != "abe" {
			t.Errorf("the cursor saw %q, want abe", got)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func contractSizes(t *testing.T, db *DB) {
	for _, key := range [][]byte{nil, {}, make([]byte, MaxKeySize+1)} {
		if err := db.Update(func(tx *Tx) error { tx.Put("a", key, nil); return nil }); !errors.Is(err, ErrKey) {
			t.Errorf("a key of %d bytes: %v, want ErrKey", len(key), err)
		}
	}
	longest := bytes.Repeat([]byte("k"), MaxKeySize)
	put(t, db, "a", string(longest), "v")
	for range 5 {
		put(t, db, "a", "other", "x")
	}
	want(t, db, "a", string(longest), "v")
}

func contractSerial(t *testing.T, db *DB) {
	const goroutines, each = 8, 25
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			for range each {
				err := db.Update(func(tx *Tx) error {
					n := 0
					_, _ = fmt.Sscan(string(tx.Get("a", []byte("n"))), &n)
					tx.Put("a", []byte("n"), fmt.Append(nil, n+1))
					tx.Put("a", fmt.Appendf(nil, "by %d", g), fmt.Append(nil, n+1))
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	want(t, db, "a", "n", fmt.Sprint(goroutines*each))
}

func contractClosed(t *testing.T, db *DB) {
	closeChecked(t, db)
	if err := db.View(func(*Tx) error { t.Error("the closure ran"); return nil }); !errors.Is(err, ErrClosed) {
		t.Errorf("view: %v, want ErrClosed", err)
	}
	if err := db.Update(func(*Tx) error { t.Error("the closure ran"); return nil }); !errors.Is(err, ErrClosed) {
		t.Errorf("update: %v, want ErrClosed", err)
	}
	if err := db.Close(); err != nil {
		t.Errorf("closing again: %v", err)
	}
}
