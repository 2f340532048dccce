package store

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/lazuli-storage/lazuli/internal/storage/bboltpage"
	"github.com/lazuli-storage/lazuli/internal/storage/disk"
)

// Open opens the file at path, or creates it. The folder must exist.
//
// Errors: ErrLocked, ErrFormat, ErrDamaged, or an error of the operating system.
func Open(path string, o Options) (db *DB, err error) {
	defer func() {
		// bbolt panics on some kinds of damage.
		if v := recover(); v != nil {
			db, err = nil, fmt.Errorf("%w: open %s: %v", ErrFormat, path, v)
		}
	}()
	if o.Log != nil && (o.Relaxed && !o.Private || o.ReadOnly) {
		return nil, errors.New("store: open: Relaxed without Private, and ReadOnly, do not go together with Log")
	}
	if o.Archive != nil && (o.ReadOnly || o.Ephemeral) {
		return nil, errors.New("store: open: ReadOnly and Ephemeral do not go together with Archive")
	}
	if o.Ephemeral {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("store: open: %w", err)
		}
	}
	if o.LockTimeout == 0 {
		o.LockTimeout = time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.FS == nil {
		o.FS = disk.OS
	}
	if o.Log != nil {
		// Before the file is opened for writing, since join may replace it.
		if err := join(path, o); err != nil {
			o.Log.Close()
			return nil, openError(path, err)
		}
	}
	if !o.Ephemeral {
		if err := lostFile(path); err != nil {
			return nil, openError(path, err)
		}
		// bbolt trusts the pages that it reads, and panics on some. So the structure is verified before it opens the file.
		err := inspect(path, o.LockTimeout)
		if errors.Is(err, ErrLocked) {
			return nil, fmt.Errorf("%w: %s", ErrLocked, path)
		}
		if err != nil {
			return nil, openError(path, err)
		}
	}
	db, err = openFile(path, o)
	if err != nil {
		return nil, err
	}
	switch {
	case o.Log != nil:
		if err := db.openReplica(o); err != nil {
			o.Log.Close()
			return nil, errors.Join(openError(path, err), db.closeFiles())
		}
	case !o.ReadOnly && !o.Ephemeral:
		// A file that follows a replicated log must not be written without it: the view would differ from its log.
		if db.found.logID != "" {
			return nil, errors.Join(fmt.Errorf("%w: %s", ErrReplicated, path), db.closeFiles())
		}
		if err := db.recover(db.found, o); err != nil {
			return nil, errors.Join(openError(path, err), db.closeFiles())
		}
	}
	if o.Ephemeral {
		db.leftover = os.Remove(path) != nil
	}
	if db.archive != nil {
		db.archive.Opened(db.layers.Load().active.newest)
	}
	return db, nil
}

// openError adds the file's path to err, and converts errors of other packages to ErrFormat and ErrDamaged.
func openError(path string, err error) error {
	err = asDamage(path, err)
	switch {
	case errors.Is(err, ErrDamaged):
		return fmt.Errorf("store: open %s: %w; %s", path, err, nextStep)
	case errors.Is(err, bboltpage.ErrFormat), errors.Is(err, bolterrors.ErrInvalid),
		errors.Is(err, bolterrors.ErrVersionMismatch),
		errors.Is(err, bolterrors.ErrChecksum):
		return fmt.Errorf("%w: open %s: %v", ErrFormat, path, err)
	}
	return fmt.Errorf("store: open %s: %w", path, err)
}

// openFile opens a file that was inspected, and reads its log.
func openFile(path string, o Options) (db *DB, err error) {
	b, err := bolt.Open(path, 0o600, boltOptions(o))
	if errors.Is(err, bolterrors.ErrTimeout) {
		return nil, fmt.Errorf("%w: %s", ErrLocked, path)
	}
	if err != nil {
		return nil, openError(path, err)
	}
	b.AllocSize = allocSize
	db = &DB{bolt: b, writer: bboltpage.NewWriter(b), buckets: o.Buckets, path: path, fs: o.FS, logger: o.Logger,
		reproducible: o.reproducible, readOnly: o.ReadOnly,
		memtableSize: cmp.Or(o.MemtableSize, DefaultMemtable), attachedSize: attachedSize,
		chunkKeys: chunkKeys, minFlying: minFlying, attachments: o.Attachments, archive: o.Archive, guard: o.Guard,
		ephemeral: o.Ephemeral}
	// From here on every error closes the file and its log.
	defer func() {
		if err != nil {
			err = errors.Join(openError(path, err), db.closeFiles())
		}
	}()
	if o.Log != nil {
		db.replica = &replica{log: o.Log, local: o.ReadLocal, applied: o.Applied, private: o.Private,
			relaxed: o.Relaxed}
		if o.Private && o.SnapshotLog >= 0 {
			db.replica.trim = cmp.Or(o.SnapshotLog, DefaultPrivateLog)
		}
	}
	// Conditions share the lock of what they wait for, which is set once the fields are there.
	db.idle.L = &db.mu
	db.flights.landed.L = &db.flights.mu
	db.checkpoints.ended.L = &db.checkpoints.mu
	db.layers.Store(&layers{active: newMemtable(len(db.buckets))})
	db.trim = newTrimmer(o.MaxMapped)
	db.depths = make([]atomic.Int32, len(db.buckets))
	// A seed for each bucket, so that a record that was moved to another bucket fails its checksum.
	for i, name := range db.buckets {
		db.seeds = append(db.seeds, bucketSeed(name))
		db.verifiers = append(db.verifiers, db.verify(i))
	}
	if err := db.openPages(); err != nil {
		return nil, err
	}
	// The format before replay: it says to which log file the data file belongs.
	if db.found, err = db.readFormat(); err != nil {
		return nil, err
	}
	if err := db.prepare(&db.found); err != nil {
		return nil, err
	}
	if o.Ephemeral {
		return db, nil
	}
	// The own log first, then the replicated one: the file must have all that it acknowledged before newer records are
	// applied.
	if err := db.replay(db.found); err != nil || o.Replay == nil || db.found.logID == "" {
		return db, err
	}
	return db, db.replayReplicated(o.Replay)
}

// openPages opens the file a second time to read it directly, if that is faster.
func (db *DB) openPages() error {
	if canTrim && db.trim.limit >= 0 {
		f, err := os.Open(db.path)
		if err != nil {
			return err
		}
		db.pagesFile, db.directAbove = f, db.trim.limit
		db.pages = bboltpage.NewReader(f, db.bolt.Info().PageSize)
		return nil
	}
	db.directAbove = math.MaxInt64
	db.pages = bboltpage.NewReader(nil, db.bolt.Info().PageSize)
	return nil
}

// recover writes the log that a crash left to the file, and begins a log.
func (db *DB) recover(f format, o Options) (err error) {
	db.gen = f.gen + 3
	if !o.reproducible {
		db.gen += rand.Uint64N(1 << 40)
	}
	m := db.layers.Load().active
	// The log files must exist before the file refers to them.
	if db.log, err = openWAL(db.fs, db.path, db.gen, !o.Relaxed, db.mark,
		mark{id: f.id, gen: f.gen, group: m.newest}); err != nil {
		return err
	}
	if err := db.commit(m, db.gen-1, false); err != nil {
		return err
	}
	db.log.complete = db.gen - 1
	fresh := newMemtable(len(db.buckets))
	fresh.publish(m.newest)
	db.layers.Store(&layers{active: fresh})
	return nil
}

// readFormat reads the format bucket, and compares its list of buckets with the existing ones.
func (db *DB) readFormat() (f format, err error) {
	err = db.bolt.View(func(tx *bolt.Tx) error {
		b := tx.Bucket(formatBucket)
		if b == nil {
			if k, _ := tx.Cursor().First(); k != nil {
				return fmt.Errorf("%w: no version", ErrFormat)
			}
			return nil
		}
		if v := b.Get(versionKey); string(v) == "1" || b.Get(idKey) == nil && bytes.HasPrefix(v, []byte("2")) {
			return fmt.Errorf("%w: a development build before version 1 wrote it", ErrFormat)
		}
		return f.read(tx, b, filepath.Base(db.path))
	})
	return f, err
}

// prepare creates what a file lacks: its version and the buckets.
func (db *DB) prepare(f *format) error {
	missing := f.version == 0
	for _, name := range db.buckets {
		missing = missing || !slices.Contains(f.buckets, string(name))
	}
	if !missing || db.readOnly {
		return nil
	}
	return db.bolt.Update(func(tx *bolt.Tx) error {
		for _, name := range db.buckets {
			if _, err := tx.CreateBucketIfNotExists([]byte(name)); err != nil {
				return err
			}
		}
		if err := putBuckets(tx); err != nil {
			return err
		}
		if f.version != 0 {
			return nil
		}
		f.version, f.closed = currentVersion, true
		if err := putProgress(tx, f.gen, f.group, f.closed); err != nil {
			return err
		}
		if !db.reproducible {
			f.id = newID()
		} else {
			f.id = strings.Repeat("\x00", idSize)
		}
		return putVersion(tx, f.id)
	})
}
