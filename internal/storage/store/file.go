package store

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/bits"
	"runtime"

	bolt "go.etcd.io/bbolt"
)

// The bucket and key that say which layout a file has. Version 1: one bbolt bucket for each Bucket, nothing nested,
// and a log as in log.go.
// The leading zero byte keeps the bucket apart from those of the services.
var (
	formatBucket = []byte("\x00store")
	formatKey    = []byte("version")
	formatValue  = []byte("1")
	logKey       = []byte("log") // generation of the log up to which the file has everything, 8 bytes, big-endian
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

// prepare checks the format of the file and creates what is missing.
func (db *DB) prepare(o Options) error {
	complete := false
	err := db.bolt.View(func(tx *bolt.Tx) error {
		// Reading a mapping past the end of its file kills the process.
		if have := db.fileSize(); have < tx.Size() {
			return fmt.Errorf("%w: the file has %d bytes of %d", ErrFormat, have, tx.Size())
		}
		b := tx.Bucket(formatBucket)
		if b == nil {
			if k, _ := tx.Cursor().First(); k != nil {
				return fmt.Errorf("%w: no version", ErrFormat)
			}
			return nil
		}
		if v := b.Get(formatKey); !bytes.Equal(v, formatValue) {
			return fmt.Errorf("%w: version %q, this release reads %q", ErrFormat, v, formatValue)
		}
		complete = true
		for _, name := range o.Buckets {
			complete = complete && tx.Bucket([]byte(name)) != nil
		}
		return nil
	})
	if err != nil || complete || o.ReadOnly {
		return err
	}
	return db.bolt.Update(func(tx *bolt.Tx) error {
		for _, name := range o.Buckets {
			if _, err := tx.CreateBucketIfNotExists([]byte(name)); err != nil {
				return err
			}
		}
		b, err := tx.CreateBucketIfNotExists(formatBucket)
		if err != nil {
			return err
		}
		return b.Put(formatKey, formatValue)
	})
}

// replay reads what the log has beyond the file into the active memtable.
func (db *DB) replay() error {
	applied := uint64(0)
	err := db.bolt.View(func(tx *bolt.Tx) error {
		if b := tx.Bucket(formatBucket); b != nil {
			if v := b.Get(logKey); len(v) == 8 {
				applied = binary.BigEndian.Uint64(v)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	m := db.layers.Load().active
	for gen := applied + 1; gen <= applied+2; gen++ {
		err := readLog(db.path, gen, func(group uint64, payload []byte) error {
			if group <= m.newest {
				return fmt.Errorf("%w: the log has group %d after %d", ErrFormat, group, m.newest)
			}
			if err := m.insertPayload(db, payload, group); err != nil {
				return err
			}
			m.publish(group)
			return nil
		})
		if err != nil {
			return err
		}
	}
	// Beyond what the files can hold, so that no record of theirs passes for one of ours.
	db.gen = applied + 3
	return nil
}

// recover moves what a crash left in the log into the file, and begins a log.
func (db *DB) recover(o Options) error {
	if o.Ephemeral {
		return nil
	}
	// Also if the log was empty: the file must know where the new one begins.
	m := db.layers.Load().active
	err := db.commit(m, db.gen-1)
	if err != nil {
		return err
	}
	fresh := newMemtable(len(db.buckets))
	fresh.publish(m.newest)
	db.layers.Store(&layers{active: fresh})
	db.log, err = openWAL(db.path, db.gen, !o.Relaxed)
	return err
}
