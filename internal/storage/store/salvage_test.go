package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// TestEveryDamageIsFoundAndRepaired flips bits of every file. Whatever is refused, or cannot be read, Examine must
// find; Repair must leave a store that opens, whose content is what was written, without what was damaged, and must
// keep the damaged files.
func TestEveryDamageIsFoundAndRepaired(t *testing.T) {
	t.Parallel()
	for _, crashed := range []bool{false, true} {
		t.Run(fmt.Sprintf("crashed=%v", crashed), func(t *testing.T) {
			t.Parallel()
			dir := check.MemoryDir(t)
			want := sample(t, dir, crashed)
			rng := rand.New(rand.NewPCG(8, 9))
			for _, name := range []string{"db", "db-log0", "db-log1"} {
				p, err := os.ReadFile(filepath.Join(dir, name))
				if err != nil {
					continue
				}
				places := damageable(t, filepath.Join(dir, "db"))
				if name != "db" {
					places = records(p)
				}
				noticed, lost := 0, 0
				for range check.Size(20, 60) {
					place := places[rng.IntN(len(places))]
					at := place.at + rng.IntN(place.n)
					bit := at*8 + rng.IntN(8)
					result := outcome(t, copyStore(t, dir, name, bit), want)
					path := copyStore(t, dir, name, bit)
					if n := examine(t, path); n == 0 && result != "intact" {
						t.Errorf("%s, %s, offset %d: %s, and nothing was found", name, place.what, at, result)
					}
					if result == "intact" {
						continue
					}
					noticed++
					n := repair(t, path, want)
					if lost += n; n > place.keys {
						t.Errorf("%s, %s, offset %d: %d keys lost, and the bit is in a place with %d", name, place.what, at, n,
							place.keys)
					}
				}
				t.Logf("%s: %d noticed, %d keys lost", name, noticed, lost)
			}
		})
	}
}

// place is a part of a file in which a flipped bit affects at most keys keys.
type place struct {
	what        string
	at, n, keys int
}

// damageable returns the parts of the pages that lead to keys: all of a page that is not a leaf, and header and
// elements, and the keys with their values, of each leaf. Leaves of the tree of buckets have no keys of the sample.
func damageable(t *testing.T, path string) (places []place) {
	t.Helper()
	db, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true, PreLoadFreelist: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	size := db.Info().PageSize
	err = db.View(func(tx *bolt.Tx) error {
		for id := 0; ; {
			p, err := tx.Page(id)
			if err != nil || p == nil {
				return err
			}
			at, length := id*size, (1+p.OverflowCount)*size
			switch {
			case p.Type == "leaf" && id != int(tx.Cursor().Bucket().Root()):
				head := 16 + 16*p.Count
				places = append(places, place{"elements of a leaf", at, head, p.Count},
					place{"a leaf", at + head, length - head, p.Count})
			case p.Type == "leaf", p.Type == "branch":
				places = append(places, place{p.Type + " above the leaves", at, min(length, 400), 0})
			case p.Type != "free":
				places = append(places, place{p.Type, at, 100, 0})
			}
			id += 1 + p.OverflowCount
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return places
}

// records returns the records of a log file. Each write of a record may concern another key.
func records(file []byte) (places []place) {
	for at := 0; at+logHeaderSize < len(file); {
		r, ok := parseRecord(file, at, binary.LittleEndian.Uint64(file[at+8:]))
		if !ok || len(r.payload) == 0 {
			break
		}
		keys := 0
		_ = readPayload(r.payload, func(Bucket, Write) error { keys++; return nil })
		n := logHeaderSize + len(r.payload)
		places = append(places, place{"a record", at, n, keys})
		at += n
	}
	return places
}

// examine returns how many problems a check finds.
func examine(t *testing.T, path string) (n int) {
	t.Helper()
	if err := Examine(path, []Bucket{"a", "b"}, func(*DamageError) { n++ }); err != nil {
		t.Errorf("examine: %v", err)
	}
	return n
}

// repair returns how many keys were lost.
func repair(t *testing.T, path string, want [2]model) (lost int) {
	t.Helper()
	before, size, err := beginOf(path)
	if err != nil {
		t.Fatal(err)
	}
	aside := filepath.Join(filepath.Dir(path), "aside")
	r, err := Repair(path, []Bucket{"a", "b"}, aside, nil, func(*DamageError) {})
	if err != nil {
		t.Errorf("repair: %v", err)
		return 0
	}
	if r.Damaged == 0 {
		t.Error("repair reports no damage")
	}
	if kept, n, err := beginOf(filepath.Join(aside, "db")); err != nil || n != size || !bytes.Equal(kept, before) {
		t.Errorf("the damaged file was not kept: %v", err)
	}
	db, err := Open(path, Options{Buckets: []Bucket{"a", "b"}, Relaxed: true})
	if err != nil {
		t.Errorf("after the repair: %v", err)
		return 0
	}
	defer closeChecked(t, db)
	for i, b := range []Bucket{"a", "b"} {
		got := bucketContent(t, db, b)
		for k, v := range want[i] {
			if got[k] != v {
				lost++
			}
		}
	}
	return lost
}

// Repair of an undamaged store changes nothing of its content.
func TestRepairKeepsEverything(t *testing.T) {
	t.Parallel()
	for _, crashed := range []bool{false, true} {
		dir := check.MemoryDir(t)
		want := sample(t, dir, crashed)
		path := filepath.Join(dir, "db")
		r, err := Repair(path, []Bucket{"a", "b"}, filepath.Join(dir, "aside"), nil, func(d *DamageError) { t.Error(d) })
		if err != nil || r.Damaged != 0 || crashed != (r.LogRecords > 0) {
			t.Errorf("crashed %v: %+v, %v", crashed, r, err)
		}
		db := openAt(t, path, Options{})
		for i, b := range []Bucket{"a", "b"} {
			if got := bucketContent(t, db, b); !maps.Equal(got, want[i]) {
				t.Errorf("crashed %v: bucket %s has %d keys, want %d", crashed, b, len(got), len(want[i]))
			}
		}
	}
}

func TestExamineMissingFile(t *testing.T) {
	t.Parallel()
	if err := Examine(filepath.Join(t.TempDir(), "db"), nil, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

// TestMissingAndNewerLogsAreFound covers what Open refuses without a damaged byte in any file.
func TestMissingAndNewerLogsAreFound(t *testing.T) {
	t.Parallel()
	dir := check.MemoryDir(t)
	sample(t, dir, true)
	for _, name := range []string{"db-log0", "db-log1"} {
		path := copyStore(t, dir, "", 0)
		if err := os.Remove(filepath.Join(filepath.Dir(path), name)); err != nil {
			t.Fatal(err)
		}
		if examine(t, path) == 0 {
			t.Errorf("without %s nothing is found", name)
		}
	}
	// The file of an earlier time beside the current log.
	path := copyStore(t, dir, "", 0)
	old := filepath.Join(check.MemoryDir(t), "db")
	closeChecked(t, openAt(t, old, Options{reproducible: true}))
	if err := os.Rename(old, path); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path, Options{Buckets: []Bucket{"a", "b"}}); !errors.Is(err, ErrDamaged) {
		t.Errorf("open: %v, want ErrDamaged", err)
	}
	if examine(t, path) == 0 {
		t.Error("nothing is found in an old file beside a newer log")
	}
}

// TestDamageWithoutWrongChecksums flips bits that leave every checksum right, and that readers refuse nevertheless.
// Examine must find each.
func TestDamageWithoutWrongChecksums(t *testing.T) {
	t.Parallel()
	dir := check.MemoryDir(t)
	want := sample(t, dir, false)
	pages := map[string]int{} // offset of one page of each kind
	for _, p := range damageable(t, filepath.Join(dir, "db")) {
		pages[p.what] = p.at
	}
	file, err := os.ReadFile(filepath.Join(dir, "db"))
	if err != nil {
		t.Fatal(err)
	}
	leaf, branch := pages["elements of a leaf"], pages["branch above the leaves"]
	key := branch + 16 + 16 + int(binary.NativeEndian.Uint32(file[branch+32:])) +
		int(binary.NativeEndian.Uint32(file[branch+36:])) - 1
	buckets := pages["leaf above the leaves"]
	name := buckets + 16 + 16 + int(binary.NativeEndian.Uint32(file[buckets+36:]))
	if file[name] != 'a' {
		t.Fatalf("the byte at %d is %q, want the name of bucket a", name, file[name])
	}
	for _, c := range []struct {
		what string
		at   int
	}{
		{"last byte of the second key of a branch", key},
		{"flags of the first element of a leaf", leaf + 16},
		{"name of a bucket", name},
	} {
		path := copyStore(t, dir, "db", c.at*8)
		if examine(t, path) == 0 {
			t.Errorf("%s: nothing is found", c.what)
		}
		if lost := repair(t, path, want); lost > 0 {
			t.Errorf("%s: %d keys lost", c.what, lost)
		}
		if got := outcome(t, copyStore(t, dir, "db", c.at*8), want); got != "error" && got != "refused" {
			t.Errorf("%s: %s", c.what, got)
		}
	}
}

// TestDamagedCountOfOneElement covers a leaf whose only key the header no longer counts: the key must not pass for
// absent.
func TestDamagedCountOfOneElement(t *testing.T) {
	t.Parallel()
	for _, size := range []int{10, 2000} { // in the page of the buckets, and in a page of its own
		path := filepath.Join(check.MemoryDir(t), "db")
		db := openAt(t, path, Options{Buckets: []Bucket{"a"}})
		put(t, db, "a", "k", strings.Repeat("v", size))
		closeChecked(t, db)
		file, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		one := []byte{2, 0, 1, 0} // a leaf with one element
		found := 0
		for at := 0; at < len(file); {
			i := bytes.Index(file[at:], one)
			if i < 0 {
				break
			}
			at += i
			flipped := bytes.Clone(file)
			flipped[at+2] = 0
			at++
			copied := filepath.Join(check.MemoryDir(t), "db")
			if err := os.WriteFile(copied, flipped, 0o600); err != nil {
				t.Fatal(err)
			}
			again, err := Open(copied, Options{Buckets: []Bucket{"a"}})
			if err != nil {
				found++
				continue
			}
			var v string
			err = again.View(func(tx *Tx) error { v = string(tx.Get("a", []byte("k"))); return nil })
			if err == nil && len(v) != size {
				t.Errorf("offset %d: the value has %d bytes, want %d", at, len(v), size)
			}
			if err != nil {
				found++
			}
			_ = again.Close()
		}
		if found == 0 {
			t.Errorf("size %d: no flip was noticed: the test shows nothing", size)
		}
	}
}
