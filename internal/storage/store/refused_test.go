package store

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/lazuli-storage/lazuli/internal/storage/replog"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/faultdisk"
	"github.com/lazuli-storage/lazuli/internal/test/natscluster"
)

// Each error of a log is the error of the store that says what its caller can do.
func TestErrorsOfALog(t *testing.T) {
	t.Parallel()
	other := errors.New("other")
	for from, want := range map[error]error{nil: nil, replog.ErrClosed: ErrClosed, replog.ErrUnknown: ErrUnknown,
		replog.ErrDisk: ErrNodeDisk, replog.ErrUnavailable: ErrUnavailable, other: ErrUnavailable} {
		wrapped := from
		if from != nil {
			wrapped = fmt.Errorf("append: %w", from)
		}
		got := logError(wrapped)
		if !errors.Is(got, want) || want != ErrClosed && !errors.Is(got, from) {
			t.Errorf("%v becomes %v, want %v", from, got, want)
		}
	}
}

// frame encodes an entry in the form of a snapshot, with a right or a wrong checksum.
func frame(b Bucket, key, value string, right bool) []byte {
	s := &WriteSet{}
	s.put(b, []byte(key), []byte(value))
	payload := s.appendPayload(nil)
	if !right {
		payload[len(payload)-1] ^= 1
	}
	return append(binary.AppendUvarint(nil, uint64(len(payload))), payload...)
}

// A snapshot or archive that is damaged, cut or of another store is refused, wherever the damage is.
func TestSnapshotsThatAreRefused(t *testing.T) {
	t.Parallel()
	good := frame("a", "k", "v", true)
	for name, c := range map[string]struct {
		frames []byte
		want   error
	}{
		"intact":             {frames: good},
		"a wrong checksum":   {frame("a", "k", "v", false), replog.ErrDamaged},
		"after intact ones":  {append(bytes.Clone(good), frame("b", "k", "v", false)...), replog.ErrDamaged},
		"an unknown bucket":  {frame("c", "k", "v", true), ErrFormat},
		"cut":                {good[:len(good)-1], errAny},
		"a length that lies": {binary.AppendUvarint(nil, maxFrame+1), replog.ErrDamaged},
	} {
		path := filepath.Join(t.TempDir(), "db")
		frames := bufio.NewReader(bytes.NewReader(c.frames))
		err := createFile(path, []Bucket{"a", "b"}, frames, func(tx *bolt.Tx) error {
			return putProgress(tx, 0, 0, true)
		})
		if want := c.want; !errors.Is(err, want) && (want != errAny || err == nil) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
}

// errAny stands for any error.
var errAny = errors.New("any error")

// A snapshot whose file cannot get its name durably is not joined from: the log may drop what it has.
func TestASnapshotWhoseNameIsNotDurable(t *testing.T) {
	t.Parallel()
	c := natscluster.Start(t, 1)
	a := openAt(t, filepath.Join(t.TempDir(), "db"), Options{Log: openLog(t, c, 0, "shared")})
	put(t, a, "a", "k", "v")
	check.OK(t, a.Snapshot(t.Context()))
	put(t, a, "a", "l", "w")
	check.OK(t, a.Snapshot(t.Context())) // which cuts the log at the one before
	path, disk := filepath.Join(t.TempDir(), "db"), &faultdisk.FS{}
	disk.Fail(1, faultdisk.Failure{Err: syscall.EIO, Once: true}, faultdisk.SyncDir)
	o := Options{Log: openLog(t, c, 0, "shared"), Buckets: []Bucket{"a", "b"}, FS: disk}
	if db, err := Open(path, o); !errors.Is(err, syscall.EIO) {
		t.Errorf("%v, want the disk's error", err)
		if err == nil {
			_ = db.Close()
		}
	}
	want(t, openAt(t, path, Options{Log: openLog(t, c, 0, "shared"), FS: disk}), "a", "l", "w")
}

// A snapshot that another node makes is not made twice.
func TestASnapshotThatIsClaimed(t *testing.T) {
	t.Parallel()
	c := natscluster.Start(t, 1)
	a := openAt(t, filepath.Join(t.TempDir(), "db"), Options{Log: openLog(t, c, 0, "shared")})
	a.path = filepath.Join(t.TempDir(), "none") // so that the log is longer than the file
	put(t, a, "a", "k", "v")
	check.OK(t, a.replica.log.Claim(t.Context(), snapshotTerm))
	check.OK(t, a.snapshotIfLong(t.Context(), 0))
	if _, err := a.replica.log.Snapshot(t.Context()); !errors.Is(err, replog.ErrNoSnapshot) {
		t.Errorf("a snapshot was made, or %v", err)
	}
}

// A log that cannot grow by a whole step takes a record that has room alone.
func TestALogOnANearlyFullDisk(t *testing.T) {
	t.Parallel()
	db := open(t, Options{})
	db.log.step = 64 << 10
	put(t, db, "a", "k", "v")
	refused := 0
	faults(db).SetHook(func(op faultdisk.Op) error {
		if op.Kind == faultdisk.Write && len(op.Data) > 32<<10 && bytes.Count(op.Data, []byte{0}) == len(op.Data) {
			refused++
			return &os.PathError{Op: "write", Path: op.Name, Err: syscall.ENOSPC}
		}
		return nil
	})
	value := strings.Repeat("v", 1<<10)
	for i := range 100 {
		put(t, db, "a", fmt.Sprint(i), value)
	}
	if faults(db).SetHook(nil); refused == 0 {
		t.Error("the log did not grow: the test shows nothing")
	}
	want(t, db, "a", "99", value)
}

// A repaired file of which a replicated log has one view follows that log, and keeps the marks that say where the log
// must not end. Nothing is lost if the log has everything.
func TestRepairOfTheOnlyViewOfALog(t *testing.T) {
	t.Parallel()
	c := natscluster.Start(t, 1)
	dir := check.MemoryDir(t)
	db := openAt(t, filepath.Join(dir, "db"), Options{Log: openLog(t, c, 0, "alone"), Private: true})
	put(t, db, "a", "in the file", "v")
	check.OK(t, db.freeze())
	check.OK(t, db.awaitCheckpoint())
	put(t, db, "a", "in the log", "w")
	killed := check.MemoryDir(t)
	for _, name := range []string{"db", "db-mark", "mark-db", MarksFile} {
		check.OK(t, copySparse(filepath.Join(dir, name), filepath.Join(killed, name)))
	}
	check.OK(t, db.Close())
	path, aside := filepath.Join(killed, "db"), filepath.Join(killed, "aside")
	r, err := Repair(path, []Bucket{"a", "b"}, aside, nil, func(d *DamageError) { t.Error(d) })
	if err != nil || !r.Follows || r.Kept != 1 || len(r.Lost) > 0 || r.Aside != aside {
		t.Errorf("%+v, %v", r, err)
	}
	for _, name := range []string{markPath(path), Witness(path)} {
		if _, err := os.Stat(name); err != nil {
			t.Error(err)
		}
	}
	db = openAt(t, path, Options{Log: openLog(t, c, 0, "alone"), Private: true})
	want(t, db, "a", "in the file", "v")
	want(t, db, "a", "in the log", "w")
}

// Without its mark nothing says where the log of a file must end that was not closed: a repair says that changes may be
// lost.
func TestRepairOfTheOnlyViewOfALogWithoutItsMark(t *testing.T) {
	t.Parallel()
	dir, killed := check.MemoryDir(t), check.MemoryDir(t)
	db := openAt(t, filepath.Join(dir, "db"),
		Options{Log: openLog(t, natscluster.Start(t, 1), 0, "alone"), Private: true})
	put(t, db, "a", "k", "v")
	check.OK(t, db.freeze())
	check.OK(t, db.awaitCheckpoint())
	path, problems := filepath.Join(killed, "db"), 0
	check.OK(t, copySparse(filepath.Join(dir, "db"), path))
	r, err := Repair(path, []Bucket{"a", "b"}, filepath.Join(killed, "aside"), nil, func(*DamageError) { problems++ })
	if err != nil || problems != 1 || len(r.Lost) != 1 || !r.Lost[0].Changes || r.Kept != 1 {
		t.Errorf("%d problems, %+v, %v; want one of each, and what the file has", problems, r, err)
	}
}

// loseProgress damages what a file says of its log.
func loseProgress(t *testing.T, path string) {
	t.Helper()
	damaged := check.Must(bolt.Open(path, 0o600, nil))(t)
	check.OK(t, damaged.Update(func(tx *bolt.Tx) error {
		return tx.Bucket([]byte(formatBucket)).Put(logKey, []byte("damaged"))
	}))
	check.OK(t, damaged.Close())
}

// A file whose progress cannot be read has lost changes only if its mark says that there were more.
func TestRepairWithoutTheProgress(t *testing.T) {
	t.Parallel()
	for name, cut := range map[string]bool{"with its log": false, "with a cut log": true} {
		dir, killed := check.MemoryDir(t), check.MemoryDir(t)
		db := openAt(t, filepath.Join(dir, "db"), Options{})
		for i := range 3 {
			put(t, db, "a", fmt.Sprint(i), "v")
		}
		snapshotDir(t, dir, killed)
		path := filepath.Join(killed, "db")
		loseProgress(t, path)
		if cut {
			log := logPath(path, db.gen)
			p := check.Must(os.ReadFile(log))(t)
			last := records(p)[2]
			clear(p[last.at : last.at+last.n])
			check.OK(t, os.WriteFile(log, p, 0o600))
		}
		r, err := Repair(path, []Bucket{"a", "b"}, filepath.Join(killed, "aside"), nil, func(*DamageError) {})
		changes := 0
		for _, l := range r.Lost {
			if l.Changes {
				changes++
			}
		}
		if err != nil || (changes > 0) != cut {
			t.Errorf("%s: %d changes are lost: %+v, %v", name, changes, r, err)
		}
	}
}

// A log that exists and cannot be read may have changes, and the mark says how many there were. If one of them cannot
// be read, a repair ends, and leaves everything in its place. Without the progress, nothing else reads the logs before.
func TestRepairOfALogThatCannotBeRead(t *testing.T) {
	t.Parallel()
	for n := range 6 {
		name, progress := []string{"db-log0", "db-log1", "db-mark"}[n%3], n < 3
		dir, killed := check.MemoryDir(t), check.MemoryDir(t)
		db := openAt(t, filepath.Join(dir, "db"), Options{})
		put(t, db, "a", "in the log", "v")
		snapshotDir(t, dir, killed)
		path, aside := filepath.Join(killed, "db"), filepath.Join(killed, "aside")
		unreadable := filepath.Join(killed, name)
		check.OK(t, os.RemoveAll(unreadable))
		check.OK(t, os.Mkdir(unreadable, 0o700))
		if !progress {
			loseProgress(t, path)
		}
		before := check.Must(os.ReadFile(path))(t)
		if err := Examine(path, []Bucket{"a", "b"}, func(*DamageError) {}); err == nil {
			t.Errorf("%s, progress %v: it was examined", name, progress)
		}
		if r, err := Repair(path, []Bucket{"a", "b"}, aside, nil, func(*DamageError) {}); err == nil {
			t.Errorf("%s, progress %v: it was repaired: %+v", name, progress, r)
		}
		if after := check.Must(os.ReadFile(path))(t); !bytes.Equal(before, after) {
			t.Errorf("%s, progress %v: the file has changed", name, progress)
		}
		for _, made := range []string{path + "-repair", aside} {
			if _, err := os.Stat(made); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s, progress %v: %s is left: %v", name, progress, made, err)
			}
		}
	}
}

// A log whose files cannot be asked for their sizes is not opened, and no file stays open.
func TestALogWhoseSizeCannotBeRead(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"db-log0", "db-log1", "db-mark", "mark-db"} {
		path, fsys := filepath.Join(check.MemoryDir(t), "db"), &faultdisk.FS{}
		fsys.FailReads(faultdisk.Size, name, syscall.EIO)
		if _, err := Open(path, Options{Buckets: []Bucket{"a", "b"}, FS: fsys}); !errors.Is(err, syscall.EIO) {
			t.Errorf("%s: %v, want EIO", name, err)
		}
		fsys.FailReads("", "", nil)
		put(t, openAt(t, path, Options{FS: fsys}), "a", "k", "v")
	}
}
