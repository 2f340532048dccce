package store

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

// TestEveryDamageIsFound flips bits of every file. Whatever is refused, or cannot be read, Examine or Check must find; Repair must
// leave a store that opens, whose content is what was written, without what was damaged, and must keep the damaged files.
func TestEveryDamageIsFoundAndRepaired(t *testing.T) {
	t.Parallel()
	for _, crashed := range []bool{false, true} {
		t.Run(fmt.Sprintf("crashed=%v", crashed), func(t *testing.T) {
			t.Parallel()
			dir := memoryDir(t)
			want := sample(t, dir, crashed)
			rng := rand.New(rand.NewPCG(8, 9))
			for _, name := range []string{"db", "db-log0", "db-log1"} {
				p, err := os.ReadFile(filepath.Join(dir, name))
				if err != nil {
					continue
				}
				used := len(bytes.TrimRight(p, "\x00"))
				noticed, lost := 0, 0
				for range 40 {
					at := rng.IntN(used)
					if rng.IntN(4) == 0 {
						at = min(at/4096*4096+rng.IntN(64), used-1)
					}
					bit := at*8 + rng.IntN(8)
					result := outcome(t, copyStore(t, dir, name, bit), want)
					path := copyStore(t, dir, name, bit)
					if n := examine(t, path); n == 0 && result != "intact" {
						t.Errorf("%s, offset %d: %s, and nothing was found", name, at, result)
					}
					if result == "intact" {
						continue
					}
					noticed++
					lost += repair(t, path, want)
				}
				t.Logf("%s: %d noticed, %d keys lost", name, noticed, lost)
				// A flipped bit damages one page, which holds 14 keys on average.
				if noticed > 0 && lost > 30*noticed {
					t.Errorf("%s: %d keys lost in %d repairs: more than what was damaged", name, lost, noticed)
				}
			}
		})
	}
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
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	aside := filepath.Join(filepath.Dir(path), "aside")
	r, err := Repair(path, []Bucket{"a", "b"}, aside, func(*DamageError) {})
	if err != nil {
		t.Errorf("repair: %v", err)
		return 0
	}
	if r.Damaged == 0 {
		t.Error("repair reports no damage")
	}
	if kept, err := os.ReadFile(filepath.Join(aside, "db")); err != nil || !bytes.Equal(kept, before) {
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
		dir := memoryDir(t)
		want := sample(t, dir, crashed)
		path := filepath.Join(dir, "db")
		r, err := Repair(path, []Bucket{"a", "b"}, filepath.Join(dir, "aside"), func(d *DamageError) { t.Error(d) })
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
