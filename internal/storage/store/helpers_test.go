package store

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/lazuli-storage/lazuli/internal/storage/replog"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/faultdisk"
)

// faults returns what the log of a store that was opened by openAt is written through.
func faults(db *DB) *faultdisk.FS { return db.fs.(*faultdisk.FS) }

// onSync makes a hook that fn decides about syncs with.
func onSync(fn func() error) func(faultdisk.Op) error {
	return func(op faultdisk.Op) error {
		if op.Kind == faultdisk.Sync {
			return fn()
		}
		return nil
	}
}

// open returns a fresh store, which is checked and closed at the end of the test.
func open(t testing.TB, o Options) *DB {
	t.Helper()
	return openAt(t, filepath.Join(t.TempDir(), "db"), o)
}

func openAt(t testing.TB, path string, o Options) *DB {
	t.Helper()
	if o.Buckets == nil {
		o.Buckets = []Bucket{"a", "b"}
	}
	if o.FS == nil {
		o.FS = &faultdisk.FS{}
	}
	var db *DB
	check.Eventually(t, func() bool {
		var err error
		if db, err = Open(path, o); err == nil {
			return true
		}
		again, ok := logsAgain.Load(o.Log)
		if !ok || !errors.Is(err, ErrUnavailable) {
			t.Fatal(err)
		}
		o.Log = again.(func() *replog.Log)() // a store that cannot be opened closes its log
		return false
	}, "the store can be opened")
	db.minFlying = 2
	t.Cleanup(func() { closeChecked(t, db) })
	return db
}

func closeChecked(t testing.TB, db *DB) {
	t.Helper()
	if err := db.Check(func(err error) { t.Errorf("check: %v", err) }); err != nil && err != ErrClosed {
		t.Errorf("check: %v", err)
	}
	if err := db.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}

func put(t testing.TB, db *DB, b Bucket, key, value string) {
	t.Helper()
	if err := db.Update(func(tx *Tx) error { tx.Put(b, []byte(key), []byte(value)); return nil }); err != nil {
		t.Fatalf("put %q: %v", key, err)
	}
}

// get returns the value of key and whether there is one.
func get(t testing.TB, db *DB, b Bucket, key string) (value string, ok bool) {
	t.Helper()
	err := db.View(func(tx *Tx) error {
		v := tx.Get(b, []byte(key))
		value, ok = string(v), v != nil
		return nil
	})
	if err != nil {
		t.Fatalf("get %q: %v", key, err)
	}
	return value, ok
}

// want fails the test if key does not have the value; "" stands for none.
func want(t testing.TB, db *DB, b Bucket, key, value string) {
	t.Helper()
	if got, ok := get(t, db, b, key); got != value || ok != (value != "") {
		t.Errorf("%s/%s is %q (present: %v), want %q", b, key, got, ok, value)
	}
}

// copyFile returns the path of a copy of a file of a store as it is now, as after a crash.
func copyFile(t testing.TB, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(t.TempDir(), "db")
	if err := os.WriteFile(copied, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return copied
}

// rewriteReplica changes the position of a closed file in its replicated log.
func rewriteReplica(t testing.TB, path, id string, from, ahead replog.Position) {
	t.Helper()
	b, err := bolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := b.Update(func(tx *bolt.Tx) error {
		return putFormat(tx, replicaKey,
			encodeReplica(id, from, ahead))
	}); err != nil {
		t.Fatal(err)
	}
}

func bucketContent(t *testing.T, db *DB, b Bucket) model {
	t.Helper()
	m := model{}
	err := db.View(func(tx *Tx) error {
		c := tx.Cursor(b)
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
