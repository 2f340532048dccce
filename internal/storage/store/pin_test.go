package store

import (
	"context"
	"encoding/binary"
	"fmt"
	"path/filepath"
	"testing"
)

// Pins of several stores see a moment: a writer writes each number to the stores in turn, in both orders of pins.
func TestPinAll(t *testing.T) {
	t.Parallel()
	var dbs []*DB
	for i := range 3 {
		db, err := Open(filepath.Join(t.TempDir(), fmt.Sprint(i)), Options{Buckets: []Bucket{"b"}, Ephemeral: true})
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		dbs = append(dbs, db)
	}
	key := []byte("k")
	ctx, stop := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		for n := uint64(1); ctx.Err() == nil; n++ {
			for _, db := range dbs {
				if err := db.Update(func(tx *Tx) error {
					tx.Put("b", key, binary.BigEndian.AppendUint64(nil, n))
					return nil
				}); err != nil {
					failed <- err
					return
				}
			}
		}
		failed <- nil
	}()
	for range 20_000 {
		pins, err := PinAll(dbs...)
		if err != nil {
			t.Fatal(err)
		}
		var seen []uint64
		for _, p := range pins {
			if err := p.View(func(tx *Tx) error {
				n := uint64(0)
				if v := tx.Get("b", key); v != nil {
					n = binary.BigEndian.Uint64(v)
				}
				seen = append(seen, n)
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			p.Close()
			p.Close()
		}
		if seen[0] < seen[1] || seen[1] < seen[2] || seen[0] > seen[2]+1 {
			t.Fatalf("the pins see %v", seen)
		}
	}
	stop()
	if err := <-failed; err != nil {
		t.Fatal(err)
	}
}

// Entities that did not change are in the same parts after others were written, and a file of the parts has everything.
func TestParts(t *testing.T) {
	t.Parallel()
	o := Options{Buckets: []Bucket{"a", "b"}, Ephemeral: true}
	db, err := Open(filepath.Join(t.TempDir(), "db"), o)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	put := func(n, size int) {
		if err := db.Update(func(tx *Tx) error {
			tx.Put("b", fmt.Appendf(nil, "%06d", n), make([]byte, size))
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	for n := range 6000 {
		put(n*2, 1000)
	}
	parts := func() map[string]bool {
		pins, err := PinAll(db)
		if err != nil {
			t.Fatal(err)
		}
		defer pins[0].Close()
		all := map[string]bool{}
		if err := pins[0].Parts(func(p []byte) error { all[string(p)] = true; return nil }); err != nil {
			t.Fatal(err)
		}
		return all
	}
	before := parts()
	put(101, 1000)
	put(6000, 2000)
	after, fresh := parts(), 0
	for p := range after {
		if !before[p] {
			fresh++
		}
	}
	if len(before) < 6 || fresh == 0 || fresh > 4 {
		t.Errorf("of %d parts %d are new after two writes", len(after), fresh)
	}

	path := filepath.Join(t.TempDir(), "copy")
	if err := db.Extract(path); err != nil {
		t.Fatal(err)
	}
	restored, err := Open(path, Options{Buckets: o.Buckets})
	if err != nil {
		t.Fatal(err)
	}
	defer restored.Close()
	n := 0
	if err := restored.View(func(tx *Tx) error {
		c := tx.Scan("b")
		for k, _ := c.Seek(nil); k != nil; k, _ = c.Next() {
			n++
		}
		return nil
	}); err != nil || n != 6001 {
		t.Errorf("%d entries, %v", n, err)
	}
}
