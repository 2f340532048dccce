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
	// allocSize is how far the file grows beyond what is needed, in bytes. Each growth costs a sync of its own.
	allocSize = 32 << 20

	// mapSize is how much address space is reserved at once. While the file is smaller, it never has to be mapped
	// again, for which a writer would have to wait for every reader. Address space costs nothing on 64 bits.
	mapSize = 16 << 30
)

func boltOptions(o Options) *bolt.Options {
	b := &bolt.Options{
		Timeout:      o.LockTimeout,
		ReadOnly:     o.ReadOnly,
		NoSync:       o.Ephemeral,
		NoGrowSync:   o.Ephemeral,
		FreelistType: bolt.FreelistMapType,
		NoStatistics: true, // they cost every View a lock
	}
	// On Windows bbolt would make the file as large as the map.
	if bits.UintSize == 64 && runtime.GOOS != "windows" {
		b.InitialMmapSize = mapSize
	}
	return b
}

// inspect verifies the structure of an existing file before it is mapped: what bbolt reads of it when it opens it, and the pages
// that lead to its leaves. It waits for a process that has the file open.
func inspect(path string, timeout time.Duration) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	for begun := time.Now(); ; time.Sleep(lockPoll) {
		err := filelock.TryShared(f)
		if err == nil {
			break
		}
		if !errors.Is(err, filelock.ErrBusy) {
			return err
		}
		if time.Since(begun) > timeout {
			return ErrLocked
		}
	}
	info, err := f.Stat()
	if err != nil || info.Size() == 0 { // bbolt fills an empty file
		return err
	}
	_, err = bboltpage.CheckStructure(f, info.Size())
	return err
}

// lockPoll is how often a lock that another process holds is tried, as bbolt does.
const lockPoll = 50 * time.Millisecond

// recover moves what a crash left in the log into the file, and begins a log.
func (db *DB) recover(f format, relaxed bool) (err error) {
	db.gen = f.gen + 3 + rand.Uint64N(1<<40)
	m := db.layers.Load().active
	// The files of the log exist before the file says that it needs them.
	if db.log, err = openWAL(db.fs, db.path, db.gen, !relaxed); err != nil {
		return err
	}
	if err := db.commit(m, db.gen-1, false); err != nil {
		return err
	}
	fresh := newMemtable(len(db.buckets))
	fresh.publish(m.newest)
	db.layers.Store(&layers{active: fresh})
	return nil
}
