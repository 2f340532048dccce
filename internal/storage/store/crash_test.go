package store

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/faultdisk"
)

// snapshotDir copies the files of a store as they are.
func snapshotDir(t testing.TB, from, to string) {
	t.Helper()
	if err := os.MkdirAll(to, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"db", "db-log0", "db-log1", "db-mark"} {
		if err := copySparse(filepath.Join(from, name), filepath.Join(to, name)); err != nil {
			t.Fatal(err)
		}
	}
}

// copySparse copies a file that has content in its first MiB only.
func copySparse(from, to string) error {
	p, size, err := beginOf(from)
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(to, p, 0o600), os.Truncate(to, size))
}

// beginOf returns the part of a file that is in use, its first MiB or less, and the file's size.
func beginOf(path string) (p []byte, size int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	p = make([]byte, min(info.Size(), 1<<20))
	_, err = io.ReadFull(f, p)
	return p, info.Size(), err
}

// contentOf reads bucket a of the store in dir, opened as o says.
func contentOf(t testing.TB, dir string, o Options) model {
	t.Helper()
	o.Buckets = []Bucket{"a", "b"}
	db, err := Open(filepath.Join(dir, "db"), o)
	if err != nil {
		t.Fatal(err)
	}
	defer closeChecked(t, db)
	m := model{}
	err = db.View(func(tx *Tx) error {
		c := tx.Cursor("a")
		for k, v := c.Seek(nil); k != nil; k, v = c.Next() {
			m[string(k)] = string(v)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestCrashAgainstModel takes copies of the files at all moments at which a crash would matter: between transactions,
// when a record is written and not synced (then with a part of it missing or damaged, as a power failure leaves it),
// and before bbolt commits. Each copy must open with exactly what was acknowledged, or with that and the transaction
// under way.
func TestCrashAgainstModel(t *testing.T) {
	t.Parallel()
	var rounds, inLog, inBolt atomic.Int64
	root := check.MemoryDir(t)
	rapid.Check(t, func(rt *rapid.T) {
		dir := filepath.Join(root, fmt.Sprint(rounds.Add(1)))
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		src := filepath.Join(dir, "src")
		if err := os.Mkdir(src, 0o700); err != nil {
			t.Fatal(err)
		}
		logFaults := &faultdisk.FS{}
		o := Options{FS: logFaults, Buckets: []Bucket{"a", "b"}, Relaxed: rapid.Bool().Draw(rt, "relaxed")}
		db, err := Open(filepath.Join(src, "db"), o)
		if err != nil {
			t.Fatal(err)
		}
		defer closeChecked(t, db)
		db.memtableSize = 8 * entryOverhead
		db.chunkKeys = 2
		db.log.step = 8 << 10
		committed, next := model{}, model{}
		copies := 0
		crash := func(what string, damage func(dir string)) {
			copies++
			to := filepath.Join(dir, fmt.Sprint(copies))
			snapshotDir(t, src, to)
			if damage != nil {
				damage(to)
			}
			// Reading only and repairing must see the same.
			seen := contentOf(t, to, Options{ReadOnly: true})
			got := contentOf(t, to, Options{})
			if !maps.Equal(seen, got) {
				rt.Fatalf("%s: read-only shows %v, repaired %v", what, seen, got)
			}
			if !maps.Equal(got, committed) && !maps.Equal(got, next) {
				rt.Fatalf("%s: got %v, want %v or %v", what, got, committed, next)
			}
		}
		crashInLog, crashInBolt := false, false
		logFaults.SetHook(onSync(func() error {
			if crashInLog {
				inLog.Add(1)
				if err := db.awaitCheckpoint(); err != nil {
					rt.Fatal(err)
				}
				crash("record not synced", func(dir string) { damageTail(rt, db, dir) })
			}
			return nil
		}))
		db.fault = func() error {
			if crashInBolt {
				inBolt.Add(1)
				crash("before bbolt's commit", nil)
			}
			return nil
		}
		for range rapid.IntRange(1, 20).Draw(rt, "transactions") {
			next = maps.Clone(committed)
			crashInLog = rapid.IntRange(0, 5).Draw(rt, "crash in log") == 0
			crashInBolt = !crashInLog && rapid.IntRange(0, 5).Draw(rt, "crash in bolt") == 0
			n := rapid.IntRange(1, 5).Draw(rt, "writes")
			type change struct{ k, v string }
			var changes []change
			for i := range n {
				c := change{k: rapid.StringMatching("[a-e]").Draw(rt, "key")}
				if rapid.Bool().Draw(rt, "put") {
					c.v = strings.Repeat(fmt.Sprint(i), rapid.IntRange(1, 200).Draw(rt, "size"))
				}
				changes = append(changes, c)
				if next[c.k] = c.v; c.v == "" {
					delete(next, c.k)
				}
			}
			err := db.Update(func(tx *Tx) error {
				for _, c := range changes {
					if c.v == "" {
						tx.Delete("a", []byte(c.k))
					} else {
						tx.Put("a", []byte(c.k), []byte(c.v))
					}
				}
				return nil
			})
			if err != nil {
				rt.Fatal(err)
			}
			if err := db.awaitCheckpoint(); err != nil {
				rt.Fatal(err)
			}
			committed = next
			if rapid.IntRange(0, 4).Draw(rt, "crash between") == 0 {
				crash("between transactions", nil)
			}
		}
	})
	if inLog.Load() == 0 || inBolt.Load() == 0 {
		t.Errorf("%d rounds crashed %d times in the log and %d times in bbolt: the test shows nothing", rounds.Load(),
			inLog.Load(), inBolt.Load())
	}
}

// damageTail spoils the record that is being written.
func damageTail(rt *rapid.T, db *DB, dir string) {
	path := logPath(filepath.Join(dir, "db"), db.log.gen)
	p, err := os.ReadFile(path)
	if err != nil {
		rt.Fatal(err)
	}
	tail := p[db.log.end:]
	switch rapid.IntRange(0, 3).Draw(rt, "damage") {
	case 0: // none: it was synced after all
	case 1:
		p = p[:int(db.log.end)+rapid.IntRange(0, min(len(tail), 300)).Draw(rt, "left")]
		if synced := db.log.mark.last.allocated[db.log.gen%2]; int64(len(p)) < synced { // that size was synced
			p = append(p[:len(p):len(p)], make([]byte, synced-int64(len(p)))...)
		}
	case 2:
		clear(tail[rapid.IntRange(0, min(len(tail), 300)).Draw(rt, "zeros"):])
	case 3: // a sector that was not written
		from := int(db.log.end) - int(db.log.end)%512 + 512*rapid.IntRange(0, 1).Draw(rt, "sector")
		if lost := p[min(max(from, int(db.log.end)), len(p)):min(from+512, len(p))]; len(lost) > 0 {
			clear(lost)
		}
	}
	if err := os.WriteFile(path, p, 0o600); err != nil {
		rt.Fatal(err)
	}
}

// Records of an earlier generation that a file still has are never taken for those of a later one.
func TestLogFilesAreReused(t *testing.T) {
	t.Parallel()
	dir := check.MemoryDir(t)
	db := openAt(t, filepath.Join(dir, "db"), Options{})
	db.memtableSize = 1 // a generation for each transaction
	for i := range 20 {
		put(t, db, "a", "k", fmt.Sprint(i))
		if err := db.awaitCheckpoint(); err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(dir, fmt.Sprint(i))
		snapshotDir(t, dir, to)
		if got := contentOf(t, to, Options{}); got["k"] != fmt.Sprint(i) {
			t.Fatalf("after %d writes k is %s", i, got["k"])
		}
	}
	closeChecked(t, db)
	if _, err := os.Stat(logPath(filepath.Join(dir, "db"), 0)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Close left the log: %v", err)
	}
}

// A checkpoint that fails does not stop writes until memory is full; then writes fail; then they go on.
func TestCheckpointThatFailsForAWhile(t *testing.T) {
	t.Parallel()
	db := open(t, Options{})
	db.memtableSize = 10_000
	full := &os.PathError{Op: "write", Path: "db", Err: errors.New("full")}
	var broken atomic.Bool
	broken.Store(true)
	db.fault = func() error {
		if broken.Load() {
			return full
		}
		return nil
	}
	written := 0
	var err error
	for err == nil && written < 1000 {
		err = db.Update(putting(fmt.Sprint(written), strings.Repeat("x", 1000)))
		if err == nil {
			written++
		}
	}
	if !errors.Is(err, full) || written < 32 || written > 40 {
		t.Fatalf("%d writes of 1 KiB, then %v; want about 36 (10,000 bytes frozen, three times that active), then the "+
			"disk's error", written, err)
	}
	broken.Store(false)
	for i := range 100 {
		put(t, db, "a", fmt.Sprint("more", i), "x")
	}
	for i := range written {
		want(t, db, "a", fmt.Sprint(i), strings.Repeat("x", 1000))
	}
}

// A crash while one generation is being written to bbolt and the next has begun: both are read.
func TestCrashWithTwoGenerations(t *testing.T) {
	t.Parallel()
	dir := check.MemoryDir(t)
	db := openAt(t, filepath.Join(dir, "db"), Options{})
	reached, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	db.fault = func() error {
		once.Do(func() { close(reached); <-release })
		return nil
	}
	db.memtableSize = 100
	put(t, db, "a", "first", "1")
	put(t, db, "a", "both", "1")
	<-reached // the first transaction is being written, the second is in the next generation
	put(t, db, "a", "both", "2")
	put(t, db, "a", "second", "2")
	snapshotDir(t, dir, filepath.Join(dir, "copy"))
	close(release)
	got := contentOf(t, filepath.Join(dir, "copy"), Options{})
	if want := (model{"first": "1", "both": "2", "second": "2"}); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
