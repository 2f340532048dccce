package store

import (
	"bytes"
	"fmt"
	"math/bits"
	"runtime"

	bolt "go.etcd.io/bbolt"
)

// The bucket and key that say which layout a file has. Version 1: one bbolt bucket for each Bucket, nothing nested.
// The leading zero byte keeps the bucket apart from those of the services.
var (
	formatBucket = []byte("\x00store")
	formatKey    = []byte("version")
	formatValue  = []byte("1")
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
		NoSync:       o.Relaxed || o.Ephemeral,
		NoGrowSync:   o.Relaxed || o.Ephemeral,
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
