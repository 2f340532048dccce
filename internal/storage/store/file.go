package store

import (
	"errors"
	"io/fs"
	"math/bits"
	"math/rand/v2"
	"os"
	"runtime"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/lazuli-storage/lazuli/internal/storage/bboltpage"
	"github.com/lazuli-storage/lazuli/internal/storage/filelock"
)

const (
	// allocSize is the size by which the file grows beyond the needed size, in bytes. Each growth costs a sync.
	allocSize = 32 << 20

	// mapSize is the size of the address space that is reserved at once. While the file is smaller, it never has to be
	// mapped again, for which a writer would have to wait for every reader. Address space costs nothing on 64 bits.
	mapSize = 16 << 30
)

func boltOptions(o Options) *bolt.Options {
	b := &bolt.Options{
		Timeout:      o.LockTimeout,
		ReadOnly:     o.ReadOnly,
		NoSync:       o.Ephemeral,
		NoGrowSync:   o.Ephemeral,
		FreelistType: bolt.FreelistMapType,
		NoStatistics: true, // otherwise every View takes a lock
	}
	if o.reproducible {
		b.FreelistType = bolt.FreelistArrayType // takes the first pages that fit; the other type takes any
	}
	// On Windows bbolt would make the file as large as the mapping.
	if bits.UintSize == 64 && runtime.GOOS != "windows" {
		b.InitialMmapSize = mapSize
	}
	return b
}

// inspect verifies the structure of an existing file before it is mapped: the pages that bbolt reads when it opens the
// file, and the pages above its leaves. It waits for another process that has the file open.
func inspect(path string, timeout time.Duration) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for begun := time.Now(); ; time.Sleep(lockPoll) {
		err := filelock.TryShared(f)
		if err == nil {
			break
		}
		if !errors.Is(err, filelock.ErrBusy) {
			return errors.Join(err, f.Close())
		}
		if time.Since(begun) > timeout {
			return errors.Join(ErrLocked, f.Close())
		}
	}
	defer filelock.Close(f)
	info, err := f.Stat()
	if err != nil || info.Size() == 0 { // bbolt initialises an empty file
		return err
	}
	_, err = bboltpage.CheckStructure(f, info.Size())
	return err
}

// lockPoll is the interval for trying a lock that another process holds. bbolt uses the same.
const lockPoll = 50 * time.Millisecond

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
