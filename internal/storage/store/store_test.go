package store

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
)

func TestReopenKeepsWhatWasWritten(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "db")
	db := openAt(t, path, Options{})
	put(t, db, "a", "k", "1")
	put(t, db, "a", "gone", "1")
	put(t, db, "b", "k", "2")
	if err := db.Update(func(tx *Tx) error { tx.Delete("a", []byte("gone")); return nil }); err != nil {
		t.Fatal(err)
	}
	closeChecked(t, db)

	db = openAt(t, path, Options{Buckets: []Bucket{"a", "b", "c"}})
	want(t, db, "a", "k", "1")
	want(t, db, "b", "k", "2")
	want(t, db, "a", "gone", "")
	want(t, db, "c", "k", "")
	put(t, db, "c", "k", "3")
	want(t, db, "c", "k", "3")
}

func TestEmptyValueIsNotAbsent(t *testing.T) {
	t.Parallel()
	db := open(t, Options{})
	err := db.Update(func(tx *Tx) error {
		tx.Put("a", []byte("nil"), nil)
		tx.Put("a", []byte("empty"), []byte{})
		if tx.Get("a", []byte("nil")) == nil || tx.Get("a", []byte("empty")) == nil {
			t.Error("an empty value reads as absent within its transaction")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range []string{"nil", "empty"} {
		if _, ok := get(t, db, "a", k); !ok {
			t.Errorf("%s reads as absent", k)
		}
	}
}

// A process that is killed while it creates a file leaves one without buckets, and without a mark.
func TestFileThatWasBeingCreated(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "db")
	b, err := bolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	for _, readOnly := range []bool{true, false} {
		db, err := Open(path, Options{Buckets: []Bucket{"a"}, ReadOnly: readOnly})
		if err != nil {
			t.Fatalf("read-only %v: %v", readOnly, err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	busy := openAt(t, filepath.Join(dir, "busy"), Options{})
	_ = busy
	newer := filepath.Join(dir, "newer")
	setVersion(t, newer, "3")
	foreign := filepath.Join(dir, "foreign")
	setVersion(t, foreign, "")
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, bytes.Repeat([]byte("not a store "), 5000), 0o600); err != nil {
		t.Fatal(err)
	}
	short := filepath.Join(dir, "short")
	long := openAt(t, short, Options{})
	put(t, long, "a", "k", strings.Repeat("v", 1<<20))
	closeChecked(t, long)
	if err := os.Truncate(short, 100_000); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path string
		want error
	}{
		{short, ErrDamaged},
		{filepath.Join(dir, "busy"), ErrLocked},
		{newer, ErrFormat},
		{foreign, ErrFormat},
		{text, ErrFormat},
		{filepath.Join(dir, "no", "folder"), os.ErrNotExist},
	} {
		db, err := Open(c.path, Options{Buckets: []Bucket{"a"}, LockTimeout: time.Millisecond})
		if !errors.Is(err, c.want) {
			t.Errorf("open %s: %v, want %v", c.path, err, c.want)
		}
		if err == nil {
			db.Close()
		}
	}
}

// setVersion writes a file of that version; without one, a bbolt file of another program.
func setVersion(t *testing.T, path, version string) {
	t.Helper()
	b, err := bolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	err = b.Update(func(tx *bolt.Tx) error {
		name := formatBucket
		if version == "" {
			name = []byte("theirs")
		}
		x, err := tx.CreateBucket(name)
		if err != nil {
			return err
		}
		return x.Put(versionKey, appendSealed(nil, formatSeed, versionKey, []byte(version)))
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestEphemeralLeavesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "db")
	if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	db := openAt(t, path, Options{Ephemeral: true})
	put(t, db, "a", "k", "1")
	want(t, db, "a", "k", "1")
	closeChecked(t, db)
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestReadOnly(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "db")
	db := openAt(t, path, Options{})
	put(t, db, "a", "k", "1")
	closeChecked(t, db)

	r := openAt(t, path, Options{ReadOnly: true, Buckets: []Bucket{"a", "later"}})
	second := openAt(t, path, Options{ReadOnly: true})
	want(t, r, "a", "k", "1")
	want(t, second, "a", "k", "1")
	want(t, r, "later", "k", "")
	if err := r.Update(putting("x", "1")); !errors.Is(err, ErrReadOnly) {
		t.Errorf("update of a read-only store: %v", err)
	}
}

func TestSizesOutOfRange(t *testing.T) {
	t.Parallel()
	db := open(t, Options{})
	long := bytes.Repeat([]byte("k"), MaxKeySize+1)
	for name, write := range map[string]func(*Tx){
		"empty key":    func(tx *Tx) { tx.Put("a", nil, []byte("v")) },
		"empty delete": func(tx *Tx) { tx.Delete("a", nil) },
		"long key":     func(tx *Tx) { tx.Put("a", long, []byte("v")) },
		"long value":   func(tx *Tx) { tx.Put("a", []byte("k"), make([]byte, MaxValueSize+1)) },
	} {
		t.Run(name, func(t *testing.T) {
			err := db.Update(func(tx *Tx) error { tx.Put("a", []byte("other"), []byte("v")); write(tx); return nil })
			if !errors.Is(err, ErrKey) {
				t.Errorf("got %v, want ErrKey", err)
			}
			want(t, db, "a", "other", "")
		})
	}
	err := db.Update(func(tx *Tx) error { tx.Put("a", long[:MaxKeySize], []byte("v")); return nil })
	if err != nil {
		t.Errorf("a key of the greatest length: %v", err)
	}
}

func TestUnknownBucketPanicsAtOnce(t *testing.T) {
	t.Parallel()
	db := open(t, Options{})
	defer func() {
		if v := recover(); v == nil || !strings.Contains(fmt.Sprint(v), "misspelt") {
			t.Errorf("recovered %v", v)
		}
	}()
	_ = db.View(func(tx *Tx) error { tx.Get("misspelt", []byte("k")); return nil })
}

// refuses reports whether Close has begun.
func (db *DB) refuses() bool {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.closed
}

func TestClose(t *testing.T) {
	t.Parallel()
	db := open(t, Options{})
	started, release := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		err := db.View(func(tx *Tx) error { started <- struct{}{}; <-release; return nil })
		if err != nil {
			t.Errorf("view in flight: %v", err)
		}
	})
	wg.Go(func() {
		err := db.Update(func(tx *Tx) error {
			tx.Put("a", []byte("k"), []byte("v"))
			started <- struct{}{}
			<-release
			return nil
		})
		if err != nil {
			t.Errorf("update in flight: %v", err)
		}
	})
	<-started
	<-started
	closed := make(chan error, 1)
	go func() { closed <- db.Close() }()
	for !db.refuses() {
		runtime.Gosched()
	}
	select {
	case err := <-closed:
		t.Fatalf("close did not wait for transactions: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	close(release)
	if err := <-closed; err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	nothing := func(*Tx) error { return nil }
	if err := db.View(nothing); !errors.Is(err, ErrClosed) {
		t.Errorf("view after close: %v", err)
	}
	if err := db.Update(nothing); !errors.Is(err, ErrClosed) {
		t.Errorf("update after close: %v", err)
	}
	if err := db.Close(); err != nil {
		t.Errorf("second close: %v", err)
	}
}
