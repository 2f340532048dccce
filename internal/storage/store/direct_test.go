//go:build linux

package store

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// randomPair makes keys that are prefixes of each other, some of them long, and values of which some need pages of
// their own.
func randomPair(rng *rand.Rand, keys, large int) (k, v []byte) {
	k = fmt.Appendf(nil, "%x", rng.IntN(keys))
	if rng.IntN(50) == 0 {
		k = append(k, bytes.Repeat([]byte{'x'}, rng.IntN(3000))...)
	}
	n := rng.IntN(1500)
	if rng.IntN(20) == 0 {
		n = rng.IntN(large)
	}
	return k, bytes.Repeat([]byte{byte(rng.Uint32())}, n)
}

// TestDirectAgainstBolt builds trees at random, and compares every key, keys that are not there, and walks from
// anywhere with what bbolt itself says, while the tree grows and shrinks.
func TestDirectAgainstBolt(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name              string
		keys, puts, large int
	}{
		{"one leaf", 40, 6, 100},
		{"small", 200, 100, 5_000},
		{"overflowing leaves", 500, 300, 60_000},
		{"leaves larger than a read", 200, 100, 400_000},
		{"three levels", 20_000, 8_000, 2_000},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(7, uint64(c.keys)))
			db := open(t, Options{MaxMapped: 1, Ephemeral: true})
			served := 0
			for round := range 4 {
				err := db.Update(func(tx *Tx) error {
					for range c.puts {
						k, v := randomPair(rng, c.keys, c.large)
						tx.Put("a", k, v)
					}
					for range c.puts * round / 3 {
						k, _ := randomPair(rng, c.keys, c.large)
						tx.Delete("a", k)
					}
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
				db.toFile(t)
				served += compareDirect(t, db, rng, c.keys)
			}
			if served == 0 {
				t.Error("everything was left to bbolt: the test shows nothing")
			}
		})
	}
}

// toFile moves all that was written to bbolt.
func (db *DB) toFile(t *testing.T) {
	t.Helper()
	if err := db.awaitCheckpoint(); err != nil {
		t.Fatal(err)
	}
	if err := db.freeze(); err != nil {
		t.Fatal(err)
	}
	if err := db.awaitCheckpoint(); err != nil {
		t.Fatal(err)
	}
}

// compareDirect returns how many keys were read directly.
func compareDirect(t *testing.T, db *DB, rng *rand.Rand, keys int) (served int) {
	t.Helper()
	wanted := map[string]string{}
	var order []string
	err := db.View(func(tx *Tx) error {
		c := tx.Cursor("a")
		for k, v := c.Seek(nil); k != nil; k, v = c.Next() {
			wanted[string(k)] = string(v)
			order = append(order, string(k))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	check := func(tx *Tx, k string) {
		t.Helper()
		v := tx.Get("a", []byte(k))
		served++
		if w, present := wanted[k]; string(v) != w || present != (v != nil) {
			t.Fatalf("%.40q has %d bytes, want %d (present: %v)", k, len(v), len(w), present)
		}
	}
	for i := 0; i < len(order); i += 1 + len(order)/500 {
		err = db.View(func(tx *Tx) error {
			// Several in a transaction, so that one finds the leaf of the other.
			for _, k := range order[i:min(i+3, len(order))] {
				check(tx, k)
				check(tx, k+"0")
			}
			absent, _ := randomPair(rng, keys, 1)
			check(tx, string(absent))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for range 20 {
		err = db.View(func(tx *Tx) error {
			got := tx.Scan("a")
			want := tx.Cursor("a")
			for range 3 {
				from, _ := randomPair(rng, keys, 1)
				if rng.IntN(4) == 0 {
					from = nil
				}
				k, v := got.Seek(from)
				wk, wv := want.Seek(from)
				for n := rng.IntN(2 * len(order)); n > 0; n-- {
					if !bytes.Equal(k, wk) || !bytes.Equal(v, wv) || (k == nil) != (wk == nil) {
						t.Fatalf("scan from %.40q: got %.40q with %d bytes, want %.40q with %d", from, k, len(v), wk, len(wv))
					}
					if k == nil {
						break
					}
					k, v = got.Next()
					wk, wv = want.Next()
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return served
}

// TestDirectWhileWriting reads snapshots while every key is overwritten again and again, and pages with them.
func TestDirectWhileWriting(t *testing.T) {
	t.Parallel()
	const n, rounds = 200, 60
	db := open(t, Options{MaxMapped: 1, Ephemeral: true})
	db.memtableSize = 64 << 10
	write := func(round int) {
		err := db.Update(func(tx *Tx) error {
			for i := range n {
				tx.Put("a", fmt.Appendf(nil, "%05d", i), bytes.Repeat([]byte{byte(round)}, 1000))
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	write(0)
	db.toFile(t)
	done := make(chan struct{})
	var readers sync.WaitGroup
	for r := range 3 {
		readers.Go(func() {
			for first := true; ; first = false {
				select {
				case <-done:
					if !first {
						return
					}
				default:
				}
				err := db.View(func(tx *Tx) error {
					want := bytes.Clone(tx.Get("a", []byte("00000")))
					for i := r; i < n; i += 17 {
						if got := tx.Get("a", fmt.Appendf(nil, "%05d", i)); !bytes.Equal(got, want) {
							t.Errorf("get %d: %.1x, want %.1x", i, got, want)
						}
					}
					i := 0
					c := tx.Scan("a")
					for k, v := c.Seek(nil); k != nil; k, v = c.Next() {
						if string(k) != fmt.Sprintf("%05d", i) || !bytes.Equal(v, want) {
							t.Errorf("scan %d: %q with %.1x, want %.1x", i, k, v, want)
						}
						i++
					}
					if i != n {
						t.Errorf("%d keys, want %d", i, n)
					}
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	for round := range rounds {
		write(round)
	}
	close(done)
	readers.Wait()
}

// TestDirectWrongDepth begins with hints that are wrong in either direction.
func TestDirectWrongDepth(t *testing.T) {
	t.Parallel()
	db := open(t, Options{MaxMapped: 1, Ephemeral: true})
	fill(t, db, 20_000)
	db.toFile(t)
	for _, hint := range check.Size([]int32{1, 4}, []int32{0, 1, 2, 3, 4, 9}) {
		readAll(t, db, 20_000)
		db.depths[0].Store(hint)
		compareDirect(t, db, rand.New(rand.NewPCG(1, 2)), 20_000)
		if got := db.depths[0].Load(); got != 2 {
			t.Errorf("after hint %d the depth is taken for %d, want 2", hint, got)
		}
	}
}

// TestDirectValuesLast keeps the values of many Gets to the end of the View, and writes them elsewhere in an Update.
func TestDirectValuesLast(t *testing.T) {
	t.Parallel()
	db := open(t, Options{MaxMapped: 1, Ephemeral: true})
	key := func(i int) []byte { return fmt.Appendf(nil, "%05d", i) }
	const n = 100
	put := func(tx *Tx) error {
		for i := range n * 10 {
			tx.Put("a", key(i), bytes.Repeat(key(i), 300))
		}
		return nil
	}
	if err := db.Update(put); err != nil {
		t.Fatal(err)
	}
	db.toFile(t)
	err := db.View(func(tx *Tx) error {
		var values [n][]byte
		for i := range values {
			values[i] = tx.Get("a", key(i*10))
		}
		for i, v := range values {
			if !bytes.Equal(v, bytes.Repeat(key(i*10), 300)) {
				t.Fatalf("value %d was overwritten", i)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *Tx) error {
		for i := range n {
			tx.Put("b", key(i), tx.Get("a", key(i*10)))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		want(t, db, "b", string(key(i)), string(bytes.Repeat(key(i*10), 300)))
	}
}
