package store

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/storage/replog"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/faultdisk"
	"github.com/lazuli-storage/lazuli/internal/test/natscluster"
)

// attached is an Attachments in memory, of which a power failure leaves what was synced.
type attached struct {
	mu     sync.Mutex
	now    map[string]string
	synced map[string]string
	err    error // of Sync
	syncs  int
}

func newAttached() *attached { return &attached{now: map[string]string{}, synced: map[string]string{}} }

func (a *attached) Restore(key, value []byte) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.now[string(key)] = string(value)
	return nil
}

func (a *attached) Sync() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.err != nil {
		return a.err
	}
	a.syncs++
	a.synced = maps.Clone(a.now)
	return nil
}

// afterCrash holds what a power failure leaves.
func (a *attached) afterCrash() *attached {
	a.mu.Lock()
	defer a.mu.Unlock()
	return &attached{now: maps.Clone(a.synced), synced: maps.Clone(a.synced)}
}

// attaching puts a value and attaches another one, which it gives to a first, as a writer of content does.
func (a *attached) attaching(key, value, attachment string) func(*Tx) error {
	_ = a.Restore([]byte(key), []byte(attachment))
	return func(tx *Tx) error {
		tx.Put("a", []byte(key), []byte(value))
		tx.Attach([]byte(key), []byte(attachment))
		return nil
	}
}

func TestAttachmentsOfFailedClosuresAreNotKept(t *testing.T) {
	t.Parallel()
	a := newAttached()
	dir := check.MemoryDir(t)
	db := openAt(t, filepath.Join(dir, "db"), Options{Attachments: a})
	refused := errors.New("refused")
	err := db.Update(func(tx *Tx) error {
		tx.Attach([]byte("refused"), []byte("x"))
		return refused
	})
	if !errors.Is(err, refused) {
		t.Fatal(err)
	}
	// An attachment without a write is durable as well.
	if err := db.Update(func(tx *Tx) error { tx.Attach([]byte("alone"), []byte("y")); return nil }); err != nil {
		t.Fatal(err)
	}
	if err := db.Update(a.attaching("k", "v", "z")); err != nil {
		t.Fatal(err)
	}
	crashed := check.MemoryDir(t)
	snapshotDir(t, dir, crashed)
	after := newAttached()
	db = openAt(t, filepath.Join(crashed, "db"), Options{Attachments: after})
	if want := map[string]string{"alone": "y", "k": "z"}; !maps.Equal(after.synced, want) {
		t.Errorf("synced after a crash: %q, want %q", after.synced, want)
	}
	want(t, db, "a", "k", "v")
}

// A log with attachments needs someone who takes them, unless it is only read.
func TestLogWithAttachmentsNeedsThem(t *testing.T) {
	t.Parallel()
	a := newAttached()
	dir := check.MemoryDir(t)
	db := openAt(t, filepath.Join(dir, "db"), Options{Attachments: a})
	if err := db.Update(a.attaching("k", "v", "z")); err != nil {
		t.Fatal(err)
	}
	crashed := check.MemoryDir(t)
	snapshotDir(t, dir, crashed)
	path := filepath.Join(crashed, "db")
	if _, err := Open(path, Options{Buckets: []Bucket{"a", "b"}}); err == nil {
		t.Error("opened without Attachments")
	}
	want(t, openAt(t, path, Options{ReadOnly: true, FS: nil}), "a", "k", "v")
}

// Attachments do not stay in memory, and begin a checkpoint when the log has many of them.
func TestAttachmentsLeaveLogAndMemory(t *testing.T) {
	t.Parallel()
	for name, log := range map[string]*replog.Log{"own log": nil,
		"replicated log": openLog(t, natscluster.Start(t, 1), 0, "attached")} {
		a := newAttached()
		db := open(t, Options{Attachments: a, Log: log})
		db.attachedSize = 10_000
		before := a.syncs
		for i := range 8 {
			check.OK(t, db.Update(a.attaching(fmt.Sprint(i), "v", string(make([]byte, 4_000)))))
		}
		check.OK(t, db.awaitCheckpoint())
		if a.syncs == before {
			t.Errorf("%s: 32,000 bytes of attachments have not begun a checkpoint", name)
		}
		if n := db.layers.Load().active.bytes; n > 2_000 {
			t.Errorf("%s: the memtable has %d bytes", name, n)
		}
	}
}

// If attachments cannot be made durable elsewhere, the log keeps them, and no write is accepted until the next Open.
func TestAttachmentsThatCannotBeSynced(t *testing.T) {
	t.Parallel()
	a := newAttached()
	dir := check.MemoryDir(t)
	path := filepath.Join(dir, "db")
	db, err := Open(path, Options{Buckets: []Bucket{"a", "b"}, Attachments: a})
	if err != nil {
		t.Fatal(err)
	}
	a.mu.Lock()
	a.err = errors.New("the disk is gone")
	a.mu.Unlock()
	db.attachedSize = 100
	for i := 0; err == nil; i++ {
		if i == 1000 {
			t.Fatal("writes are accepted")
		}
		if err = db.Update(a.attaching(fmt.Sprint(i), "v", string(make([]byte, 400)))); err == nil {
			_ = db.awaitCheckpoint()
		}
	}
	if !errors.Is(err, ErrFailed) || !errors.Is(err, a.err) {
		t.Errorf("update: %v", err)
	}
	if err := db.Close(); !errors.Is(err, a.err) {
		t.Errorf("close: %v", err)
	}
	after := a.afterCrash()
	db = openAt(t, path, Options{Attachments: after})
	err = db.View(func(tx *Tx) error {
		for k := range a.now {
			if tx.Get("a", []byte(k)) != nil && after.synced[k] == "" {
				t.Errorf("the attachment of %s is lost", k)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestCrashImagesWithAttachments makes the images that a power failure may leave, as TestCrashImages does: each key
// must have its attachment.
func TestCrashImagesWithAttachments(t *testing.T) {
	t.Parallel()
	dir := check.MemoryDir(t)
	fsys := &faultdisk.FS{}
	recorder, err := fsys.Record(dir)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "db")
	rng := rand.New(rand.NewPCG(2, 4))
	a := newAttached()
	images, moments, enough, acknowledged, transactions := 0, 0, check.Size(100, 200), 0, check.Size(25, 40)
	var mu sync.Mutex // checkpoints run in the background
	check := func(what string) {
		mu.Lock()
		defer mu.Unlock()
		file, err := os.ReadFile(path)
		moments++
		for _, loss := range faultdisk.LossesAt(moments) {
			images++
			to := filepath.Join(dir, "images", fmt.Sprint(images))
			if err := recorder.Image(to, loss, rng); err != nil {
				t.Fatal(err)
			}
			if err == nil {
				if err := os.WriteFile(filepath.Join(to, "db"), file[:min(len(file), 1<<20)], 0o600); err != nil {
					t.Fatal(err)
				}
			}
			after := a.afterCrash()
			db, err := Open(filepath.Join(to, "db"), Options{Buckets: []Bucket{"a", "b"}, Attachments: after})
			if err != nil {
				t.Fatalf("%s, loss %d: %v", what, loss, err)
			}
			got := bucketContent(t, db, "a")
			if len(got) < acknowledged {
				t.Errorf("%s, loss %d: %d keys, want %d", what, loss, len(got), acknowledged)
			}
			for k, v := range got {
				if after.synced[k] != "attached to "+v {
					t.Errorf("%s, loss %d: the attachment of %s is %q", what, loss, k, after.synced[k])
				}
			}
			if err := errors.Join(db.Close(), os.RemoveAll(to)); err != nil {
				t.Fatal(err)
			}
		}
	}
	db, err := Open(path, Options{Buckets: []Bucket{"a", "b"}, FS: fsys, Attachments: a})
	if err != nil {
		t.Fatal(err)
	}
	db.attachedSize = 500
	db.log.step = 4 << 10
	// Commits of bbolt are the moments at which the log is given up.
	db.fault = func() error { check("in a checkpoint"); return nil }
	fsys.SetHook(func(op faultdisk.Op) error {
		check(fmt.Sprint("before ", op.Kind, " of ", filepath.Base(op.Name)))
		return nil
	})
	for i := range transactions {
		v := string(bytes.Repeat([]byte{byte('a' + i%26)}, 1+rng.IntN(200)))
		if err := db.Update(a.attaching(fmt.Sprint(i), v, "attached to "+v)); err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		acknowledged++
		mu.Unlock()
		if err := db.awaitCheckpoint(); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	fsys.SetHook(nil)
	check("after Close")
	t.Logf("%d images, %d syncs", images, a.syncs)
	if images < enough || a.syncs < 5 {
		t.Errorf("%d images, %d syncs: the test shows nothing", images, a.syncs)
	}
}

// All closures of a group have their attachments in the group's record.
func TestAttachmentsOfAGroup(t *testing.T) {
	t.Parallel()
	a := newAttached()
	dir := check.MemoryDir(t)
	db := openAt(t, filepath.Join(dir, "db"), Options{Attachments: a})
	for _, err := range inGroup(t, db, a.attaching("1", "v", "one"), a.attaching("2", "v", "two"),
		a.attaching("3", "v", "three")) {
		if err != nil {
			t.Error(err)
		}
	}
	crashed := check.MemoryDir(t)
	snapshotDir(t, dir, crashed)
	after := newAttached()
	openAt(t, filepath.Join(crashed, "db"), Options{Attachments: after})
	if !maps.Equal(after.synced, a.now) {
		t.Errorf("attachments %q, want %q", after.synced, a.now)
	}
}
