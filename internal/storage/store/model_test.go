package store

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

var errAbort = errors.New("abort")

// model is a bucket as a map.
type model map[string]string

func (m model) keys() []string { return slices.Sorted(maps.Keys(m)) }

// after returns the first key at or after key, or strictly after it.
func (m model) after(key string, strictly bool) (string, bool) {
	for _, k := range m.keys() {
		if k > key || k == key && !strictly {
			return k, true
		}
	}
	return "", false
}

// TestTransactionsAgainstModel runs random transactions, aborted ones among them, on the store and on a map, and
// compares every Get and every cursor step, also while the transaction writes under the cursor.
func TestTransactionsAgainstModel(t *testing.T) {
	t.Parallel()
	db := open(t, Options{Ephemeral: true})
	db.memtableSize = 3 * entryOverhead // so that every layer has something
	db.chunkKeys = 2
	rapid.Check(t, func(rt *rapid.T) {
		// Few keys, so that operations meet; few enough bytes that keys are prefixes of each other.
		key := rapid.StringOfN(rapid.RuneFrom([]rune("ab\x00")), 1, 3, -1)
		clearBucket(rt, db, "a")
		committed := model{}
		for n := range rapid.IntRange(1, 6).Draw(rt, "transactions") {
			abort := rapid.Bool().Draw(rt, "abort")
			var work model
			err := db.Update(func(tx *Tx) error {
				work = maps.Clone(committed)
				transact(rt, tx, work, key)
				if abort {
					return errAbort
				}
				return nil
			})
			if abort != errors.Is(err, errAbort) || !abort && err != nil {
				rt.Fatalf("transaction %d: %v", n, err)
			}
			if !abort {
				committed = work
			}
			compare(rt, db, committed)
		}
	})
}

// transact makes random steps within one transaction.
func transact(rt *rapid.T, tx *Tx, m model, key *rapid.Generator[string]) {
	c := tx.Cursor("a")
	at, placed := "", false // what the cursor returned last
	to := ""                // the end of its span, "" for none
	// within cuts what the model says to the span.
	within := func(k string, ok bool) (string, bool) {
		if to != "" && k >= to {
			return "", false
		}
		return k, ok
	}
	check := func(what string, k, v []byte, wantKey string, ok bool) {
		placed = ok
		at = wantKey
		if ok != (k != nil) || string(k) != wantKey || ok && string(v) != m[wantKey] {
			rt.Fatalf("%s: got %q=%q, want %q=%q (present: %v) in %v", what, k, v, wantKey, m[wantKey], ok, m)
		}
	}
	for step := range rapid.IntRange(0, 25).Draw(rt, "steps") {
		switch rapid.IntRange(0, 6).Draw(rt, "step") {
		case 0, 1:
			k, v := key.Draw(rt, "put"), fmt.Sprint(step)
			tx.Put("a", []byte(k), []byte(v))
			m[k] = v
		case 2:
			k := key.Draw(rt, "delete")
			tx.Delete("a", []byte(k))
			delete(m, k)
		case 3:
			k := key.Draw(rt, "get")
			v, ok := m[k]
			if got := tx.Get("a", []byte(k)); ok != (got != nil) || string(got) != v {
				rt.Fatalf("get %q: got %q, want %q (present: %v)", k, got, v, ok)
			}
		case 4:
			k := key.Draw(rt, "seek")
			to = ""
			gotK, gotV := c.Seek([]byte(k))
			wantKey, ok := m.after(k, false)
			check("seek "+k, gotK, gotV, wantKey, ok)
		case 5:
			k := key.Draw(rt, "seek within")
			to = key.Draw(rt, "to")
			gotK, gotV := c.SeekWithin([]byte(k), Span{To: []byte(to)})
			wantKey, ok := within(m.after(k, false))
			check("seek "+k+" to "+to, gotK, gotV, wantKey, ok)
		case 6:
			if !placed {
				continue
			}
			gotK, gotV := c.Next()
			wantKey, ok := within(m.after(at, true))
			check("next after "+at, gotK, gotV, wantKey, ok)
		}
	}
}

// compare walks the bucket in a View.
func compare(rt *rapid.T, db *DB, m model) {
	err := db.View(func(tx *Tx) error {
		for _, c := range []*Cursor{tx.Cursor("a"), tx.Scan("a")} {
			// From the middle as well: the sources are then at their keys in another way than after Next.
			for i := range len(m) + 1 {
				var got []string
				for k, v := c.Seek([]byte(append(m.keys(), "z")[i])); k != nil; k, v = c.Next() {
					if m[string(k)] != string(v) || !bytes.Equal(tx.Get("a", k), v) {
						rt.Fatalf("%q is %q, want %q", k, v, m[string(k)])
					}
					got = append(got, string(k))
				}
				if !slices.Equal(got, m.keys()[i:]) {
					rt.Fatalf("keys are %q, want %q", got, m.keys()[i:])
				}
			}
			compareSpans(rt, c, m.keys())
		}
		return nil
	})
	if err != nil {
		rt.Fatal(err)
	}
}

// compareSpans walks from each key to each later one.
func compareSpans(rt *rapid.T, c *Cursor, keys []string) {
	for i, from := range keys {
		for j, to := range keys[i:] {
			var got []string
			span := Span{From: []byte(from), To: []byte(to)}
			for k, _ := c.SeekWithin(span.From, span); k != nil; k, _ = c.Next() {
				got = append(got, string(k))
			}
			if k, _ := c.Next(); k != nil || !slices.Equal(got, keys[i:i+j]) {
				rt.Fatalf("from %q to %q: %q and then %q, want %q", from, to, got, k, keys[i:i+j])
			}
		}
	}
}

func clearBucket(rt *rapid.T, db *DB, b Bucket) {
	err := db.Update(func(tx *Tx) error {
		c := tx.Cursor(b)
		for k, _ := c.Seek(nil); k != nil; k, _ = c.Next() {
			tx.Delete(b, k)
		}
		return nil
	})
	if err != nil {
		rt.Fatal(err)
	}
}

// TestWriteSetManyKeys drives a write set through many runs, in three orders of insertion.
func TestWriteSetManyKeys(t *testing.T) {
	t.Parallel()
	const n = 5000
	for name, order := range map[string]func(i int) int{
		"ascending":  func(i int) int { return i },
		"descending": func(i int) int { return n - 1 - i },
		"scattered":  func(i int) int { return i * 7919 % n },
	} {
		t.Run(name, func(t *testing.T) {
			var s WriteSet
			for i := range n {
				k := fmt.Appendf(nil, "%05d", order(i))
				s.put("a", k, k)
			}
			if s.Len() != n {
				t.Fatalf("%d writes, want %d", s.Len(), n)
			}
			i := 0
			for _, w := range s.All() {
				if string(w.Key) != fmt.Sprintf("%05d", i) {
					t.Fatalf("write %d is %s", i, w.Key)
				}
				i++
			}
			if s.get("a", []byte("02500")) == nil || s.get("a", []byte("0250")) != nil || s.get("b", []byte("02500")) != nil {
				t.Error("get does not find what was put")
			}
		})
	}
}
