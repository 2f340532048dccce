package store

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// sample writes a store in dir: closed, or as a crash leaves it, with a log of both generations. It returns the content
// of buckets a and b.
func sample(t *testing.T, dir string, crashed bool) [2]model {
	t.Helper()
	work := check.MemoryDir(t)
	db := openAt(t, filepath.Join(work, "db"), Options{reproducible: true})
	db.memtableSize = 20_000
	db.log.step = 4 << 10
	want := [2]model{{}, {}}
	for i := range 300 {
		err := db.Update(func(tx *Tx) error {
			for j, b := range []Bucket{"a", "b"} {
				k, v := fmt.Sprintf("key %d", i*7%200), fmt.Sprintf("%0*d", 1+i*11%500, i)
				tx.Put(b, []byte(k), []byte(v))
				want[j][k] = v
				if i%9 == 0 {
					k := fmt.Sprintf("key %d", i%200/2)
					tx.Delete(b, []byte(k))
					delete(want[j], k)
				}
			}
			return nil
		})
		if err == nil {
			err = db.awaitCheckpoint() // after each update: when a checkpoint ends decides about the layout of the file
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if !crashed {
		closeChecked(t, db)
	}
	for _, name := range []string{"db", "db-log0", "db-log1", "db-mark"} {
		if err := copySparse(filepath.Join(work, name), filepath.Join(dir, name)); err != nil &&
			(crashed || !errors.Is(err, os.ErrNotExist)) {
			t.Fatal(err)
		}
	}
	return want
}

// outcome opens a store, reads everything in every way, and says what came of it.
func outcome(t *testing.T, path string, want [2]model) string {
	t.Helper()
	db, err := Open(path, Options{Buckets: []Bucket{"a", "b"}, Relaxed: true})
	if err != nil {
		if !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrFormat) {
			t.Errorf("open: %v, want ErrDamaged", err)
		}
		return "refused"
	}
	defer db.Close()
	result := "intact"
	for i, b := range []Bucket{"a", "b"} {
		got := model{}
		err := db.View(func(tx *Tx) error {
			c := tx.Scan(b)
			for k, v := c.Seek(nil); k != nil; k, v = c.Next() {
				got[string(k)] = string(v)
			}
			return nil
		})
		if err == nil && !maps.Equal(got, want[i]) {
			return "wrong"
		}
		if err != nil {
			if !errors.Is(err, ErrDamaged) {
				t.Errorf("walk: %v, want ErrDamaged", err)
			}
			result = "error"
		}
		for _, k := range slices.Concat(want[i].keys(), []string{"absent", "key 1x", "z"}) {
			var got string
			var ok bool
			err := db.View(func(tx *Tx) error {
				v := tx.Get(b, []byte(k))
				got, ok = string(v), v != nil
				return nil
			})
			if v, present := want[i][k]; err == nil && (got != v || ok != present) {
				return "wrong"
			}
			if err != nil {
				result = "error"
			}
		}
	}
	return result
}

// TestFlippedBitsAreNeverServed flips bits of every file of a store, one at a time: Open refuses it, or reads fail, or
// what is read is right, because the bit means nothing.
func TestFlippedBitsAreNeverServed(t *testing.T) {
	t.Parallel()
	for _, crashed := range []bool{false, true} {
		t.Run(fmt.Sprintf("crashed=%v", crashed), func(t *testing.T) {
			t.Parallel()
			dir := check.MemoryDir(t)
			want := sample(t, dir, crashed)
			if got := outcome(t, copyStore(t, dir, "", 0), want); got != "intact" {
				t.Fatalf("the undamaged store is %s", got)
			}
			rng := rand.New(rand.NewPCG(5, 6))
			noticed := map[string]int{}
			for _, name := range []string{"db", "db-log0", "db-log1", "db-mark"} {
				p, err := os.ReadFile(filepath.Join(dir, name))
				if err != nil {
					continue
				}
				used := len(bytes.TrimRight(p, "\x00"))
				outcomes := map[string]int{}
				for range 80 {
					at := rng.IntN(used)
					if rng.IntN(4) == 0 {
						at = at/4096*4096 + rng.IntN(64) // headers of pages
					}
					at = min(at, used-1)
					got := outcome(t, copyStore(t, dir, name, at*8+rng.IntN(8)), want)
					if outcomes[got]++; got == "wrong" {
						t.Errorf("%s: the flip at offset %d was not noticed", name, at)
					}
				}
				t.Logf("%s, %d bytes: %v", name, used, outcomes)
				noticed[name] = outcomes["refused"] + outcomes["error"]
			}
			if noticed["db"] == 0 || crashed && noticed["db-log0"]+noticed["db-log1"] == 0 {
				t.Errorf("noticed: %v: the test shows nothing", noticed)
			}
		})
	}
}

// copyStore copies a store and flips one bit of one of its files. It returns the path of the copy.
func copyStore(t *testing.T, from, name string, bit int) string {
	t.Helper()
	to := check.MemoryDir(t)
	for _, n := range []string{"db", "db-log0", "db-log1", "db-mark"} {
		if err := copySparse(filepath.Join(from, n), filepath.Join(to, n)); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
	if name != "" {
		flip(t, filepath.Join(to, name), bit)
	}
	return filepath.Join(to, "db")
}

func flip(t *testing.T, path string, bit int) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var b [1]byte
	if _, err := f.ReadAt(b[:], int64(bit/8)); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 1 << (bit % 8)
	if _, err := f.WriteAt(b[:], int64(bit/8)); err != nil {
		t.Fatal(err)
	}
}

// TestLogsThatAreMissing removes or empties a log that the file needs.
func TestLogsThatAreMissing(t *testing.T) {
	t.Parallel()
	dir := check.MemoryDir(t)
	sample(t, dir, true)
	for _, name := range []string{"db-log0", "db-log1"} {
		path := copyStore(t, dir, "", 0)
		if err := os.Remove(filepath.Join(filepath.Dir(path), name)); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(path, Options{Buckets: []Bucket{"a", "b"}}); !errors.Is(err, ErrDamaged) {
			t.Errorf("without %s: %v, want ErrDamaged", name, err)
		}
	}
}

// TestTruncatedFilesAreRefused cuts the file at every page, where reading the mapping would end the process.
func TestTruncatedFilesAreRefused(t *testing.T) {
	t.Parallel()
	dir := check.MemoryDir(t)
	want := sample(t, dir, false)
	p, err := os.ReadFile(filepath.Join(dir, "db"))
	if err != nil {
		t.Fatal(err)
	}
	used := len(bytes.TrimRight(p, "\x00"))
	for size := 1; size < used; size += 4096 {
		path := copyStore(t, dir, "", 0)
		if err := os.Truncate(path, int64(size)); err != nil {
			t.Fatal(err)
		}
		if got := outcome(t, path, want); got != "refused" {
			t.Errorf("cut to %d bytes: %s", size, got)
		}
	}
}

// A key that was damaged and has become another one does not disappear when that other one is written.
func TestDamagedKeyIsNotOverwritten(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "db")
	db := openAt(t, path, Options{})
	put(t, db, "a", "key 150", strings.Repeat("v", 100))
	closeChecked(t, db)
	p, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	p = bytes.ReplaceAll(p, []byte("key 150"), []byte("key 151"))
	if err := os.WriteFile(path, p, 0o600); err != nil {
		t.Fatal(err)
	}
	if db, err = Open(path, Options{Buckets: []Bucket{"a", "b"}}); err != nil {
		t.Fatal(err)
	}
	put(t, db, "a", "key 151", "w")
	if err := db.Close(); !errors.Is(err, ErrDamaged) {
		t.Errorf("close: %v, want ErrDamaged", err)
	}
	lost := 0
	if err := Examine(path, []Bucket{"a", "b"}, func(*DamageError) { lost++ }); err != nil || lost == 0 {
		t.Errorf("examine: %d problems, %v", lost, err)
	}
}

// A value whose memory changes between the commit and the checkpoint does not get into the file.
func TestDamageInMemory(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "db")
	db, err := Open(path, Options{Buckets: []Bucket{"a", "b"}})
	if err != nil {
		t.Fatal(err)
	}
	put(t, db, "a", "k", "value")
	db.layers.Load().active.get(0, []byte("k"), 1<<62).Value[0] ^= 1
	var damage *DamageError
	if err := db.Close(); !errors.As(err, &damage) || damage.Bucket != "a" || string(damage.Key) != "k" ||
		damage.File != "db" {
		t.Errorf("close: %v", err)
	}
	db = openAt(t, path, Options{}) // the log has it
	want(t, db, "a", "k", "value")
}

// damageValues changes a bit of each "valuevalue" in a file, in place.
func damageValues(t *testing.T, path string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for at := 0; ; at++ { // former pages have it as well
		i := bytes.Index(p[at:], []byte("valuevalue"))
		if i < 0 {
			return
		}
		at += i
		if _, err := f.WriteAt([]byte{p[at] ^ 1}, int64(at)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestDamageBetweenReads changes a byte of the file between two reads of an open store, as a page has it that the
// kernel dropped and read again. A checksum that was right a moment ago says nothing about the next read.
func TestDamageBetweenReads(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "db")
	db := openAt(t, path, Options{})
	for i := range 100 { // so many that the bucket has leaves of its own
		put(t, db, "a", fmt.Sprint("k", i), strings.Repeat("value", 100))
	}
	closeChecked(t, db)
	db = openAt(t, path, Options{})
	scan := func(f func(tx *Tx) *Cursor) error {
		return db.View(func(tx *Tx) error {
			c := f(tx)
			for k, _ := c.Seek(nil); k != nil; k, _ = c.Next() {
			}
			return nil
		})
	}
	ways := map[string]func() error{
		"cursor": func() error { return scan(func(tx *Tx) *Cursor { return tx.Cursor("a") }) },
		"scan":   func() error { return scan(func(tx *Tx) *Cursor { return tx.Scan("a") }) },
		"get":    func() error { return db.View(func(tx *Tx) error { tx.Get("a", []byte("k5")); return nil }) },
	}
	for name, read := range ways {
		if err := read(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	damageValues(t, path)
	for name, read := range ways {
		if err := read(); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s after the damage: %v, want ErrDamaged", name, err)
		}
	}
	_ = db.Close()
}

// Damage ends the closure and is counted.
func TestDamageIsReported(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "db")
	db := openAt(t, path, Options{})
	put(t, db, "a", "k", strings.Repeat("value", 100))
	closeChecked(t, db)
	damageValues(t, path)
	db, err := Open(path, Options{Buckets: []Bucket{"a", "b"}})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	err = db.View(func(tx *Tx) error { tx.Get("a", []byte("k")); t.Error("Get returned"); return nil })
	var damage *DamageError
	if !errors.As(err, &damage) || damage.Bucket != "a" || string(damage.Key) != "k" || damage.File != "db" {
		t.Errorf("view: %v", err)
	}
	err = db.Update(func(tx *Tx) error { c := tx.Cursor("a"); c.Seek(nil); t.Error("Seek returned"); return nil })
	if !errors.Is(err, ErrDamaged) {
		t.Errorf("update: %v, want ErrDamaged", err)
	}
	if db.Damages() != 2 {
		t.Errorf("%d damages are counted, want 2", db.Damages())
	}
	found := 0
	if err := db.Check(func(err error) { found++ }); err != nil || found == 0 {
		t.Errorf("check: %d problems, %v", found, err)
	}
}

// TestLogDamageInTheMiddle spoils many bytes of a log with intact records behind them, which no single bit explains.
func TestLogDamageInTheMiddle(t *testing.T) {
	t.Parallel()
	path := filepath.Join(check.MemoryDir(t), "db")
	db := openAt(t, path, Options{})
	for i := range 20 {
		put(t, db, "a", fmt.Sprint(i), strings.Repeat("x", 200))
	}
	copied := copyStore(t, filepath.Dir(path), "", 0)
	log := logPath(copied, db.gen)
	p, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	clear(p[1000:1500])
	if err := os.WriteFile(log, p, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = Open(copied, Options{Buckets: []Bucket{"a", "b"}})
	var damage *DamageError
	if !errors.As(err, &damage) || damage.File != filepath.Base(log) || !strings.Contains(err.Error(), "fsck --repair") {
		t.Errorf("open: %v, want a *DamageError that names %s and the next step", err, filepath.Base(log))
	}
	// Without intact records behind it, it is a torn end, unless the mark says that more was synced.
	clear(p[1000:])
	if err := os.WriteFile(log, p, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err = Open(copied, Options{Buckets: []Bucket{"a", "b"}}); !errors.As(err, &damage) ||
		!strings.Contains(err.Error(), "16 groups") {
		t.Errorf("open: %v, want a *DamageError that counts the lost groups", err)
	}
	m, _, err := readMark(copied)
	if err != nil {
		t.Fatal(err)
	}
	m.group = 3
	if err := os.WriteFile(markPath(copied), m.encode(), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := contentOf(t, filepath.Dir(copied), Options{}); len(got) == 0 || len(got) >= 20 {
		t.Errorf("with a torn end %d keys are left", len(got))
	}
}

// A log of which a whole record is gone is refused: what follows may depend on it.
func TestLogWithoutARecord(t *testing.T) {
	t.Parallel()
	path := filepath.Join(check.MemoryDir(t), "db")
	db := openAt(t, path, Options{})
	for i := range 20 {
		put(t, db, "a", fmt.Sprint(i), strings.Repeat("x", 200))
	}
	copied := copyStore(t, filepath.Dir(path), "", 0)
	log := logPath(copied, db.gen)
	p, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	records, _, err := readLog(copied, db.gen)
	if err != nil || len(records) < 10 {
		t.Fatalf("%d records, %v", len(records), err)
	}
	for _, gone := range []int{0, 4} {
		from, to := records[gone].at, records[gone+1].at
		if err := os.WriteFile(log, slices.Concat(p[:from], p[to:]), 0o600); err != nil {
			t.Fatal(err)
		}
		var damage *DamageError
		if _, err := Open(copied, Options{Buckets: []Bucket{"a", "b"}}); !errors.As(err, &damage) ||
			!strings.Contains(damage.Problem, "follows group") {
			t.Errorf("without record %d: %v", gone, err)
		}
	}
}

// TestDamagedMetaPage spoils each of the two meta pages. bbolt goes on with the other one, which may be older than the
// log needs.
func TestDamagedMetaPage(t *testing.T) {
	t.Parallel()
	for _, crashed := range []bool{false, true} {
		dir := check.MemoryDir(t)
		want := sample(t, dir, crashed)
		outcomes := map[string]int{}
		for page := range 2 {
			outcomes[outcome(t, copyStore(t, dir, "db", (page*4096+40)*8), want)]++
		}
		// after a crash the log may have all that the older page lacks
		if outcomes["wrong"] > 0 || !crashed && outcomes["refused"] == 0 {
			t.Errorf("crashed %v: %v", crashed, outcomes)
		}
	}
	// A store that was opened and has written nothing to its file yet: the older meta page says that there is no log.
	path := filepath.Join(check.MemoryDir(t), "db")
	db := openAt(t, path, Options{})
	put(t, db, "a", "k", "v")
	// Without its mark the file is refused by the log, which is newer than what the older page says.
	for page := range 2 {
		copied := copyStore(t, filepath.Dir(path), "db", (page*4096+40)*8)
		check.OK(t, os.Remove(markPath(copied)))
		if _, err := Open(copied, Options{Buckets: []Bucket{"a", "b"}}); !errors.Is(err, ErrDamaged) {
			t.Errorf("without meta page %d and the mark: %v, want ErrDamaged", page, err)
		}
		if examine(t, copied) == 0 {
			t.Errorf("without meta page %d and the mark nothing is found", page)
		}
	}
	refused := 0
	for page := range 2 {
		copied := copyStore(t, filepath.Dir(path), "db", (page*4096+40)*8)
		again, err := Open(copied, Options{Buckets: []Bucket{"a", "b"}})
		if errors.Is(err, ErrDamaged) {
			refused++
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if v, _ := get(t, again, "a", "k"); v != "v" {
			t.Errorf("without meta page %d k is %q", page, v)
		}
		closeChecked(t, again)
	}
	if refused != 1 {
		t.Errorf("%d of 2 were refused, want that without the newer page", refused)
	}
}
