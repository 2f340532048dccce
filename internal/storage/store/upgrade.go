package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	bolt "go.etcd.io/bbolt"
)

// upgradeSuffix is appended to the name of a file while it is being converted.
const upgradeSuffix = "-upgrade"

// upgradeBatch is the size of a transaction of an upgrade, in bytes.
const upgradeBatch = 8 << 20

// upgrade writes a file of version 1 and its log to a new file of the current version, and replaces the old one. After a crash the file is the
// old one or the new one.
func upgrade(path string, o Options) error {
	fresh := path + upgradeSuffix
	if err := os.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	o.ReadOnly = true
	old, err := openFile(path, o)
	if err != nil {
		return err
	}
	err = writeAnew(old, fresh)
	err = errors.Join(err, old.closeFiles())
	if err != nil {
		return errors.Join(err, os.Remove(fresh))
	}
	if err := os.Rename(fresh, path); err != nil {
		return err
	}
	return o.FS.SyncDir(filepath.Dir(path))
}

// writeAnew writes all data of db to a new file and makes it durable. The progress of the new file is beyond the log of the old one.
func writeAnew(db *DB, path string) (err error) {
	to, err := bolt.Open(path, 0o600, &bolt.Options{NoSync: true, NoGrowSync: true, NoFreelistSync: false, FreelistType: bolt.FreelistMapType})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	var names []Bucket
	err = db.bolt.View(func(tx *bolt.Tx) error {
		return tx.ForEach(func(name []byte, _ *bolt.Bucket) error {
			names = append(names, Bucket(name))
			return nil
		})
	})
	if err != nil {
		return err
	}
	for _, name := range names {
		if db.bucketIndex(name) < 0 && string(name) != string(formatBucket) {
			return fmt.Errorf("%w: unknown bucket %q", ErrFormat, string(name))
		}
	}
	for _, name := range db.buckets {
		if err := db.copyBucket(to, name); err != nil {
			return err
		}
	}
	m := db.layers.Load().active
	err = to.Update(func(tx *bolt.Tx) error {
		err := putBuckets(tx)
		if err == nil {
			err = putProgress(tx, db.found.gen+2, m.newest, true)
		}
		if err == nil {
			err = putFormat(tx, versionKey, []byte(strconv.Itoa(currentVersion)))
		}
		return err
	})
	return errors.Join(err, to.Sync())
}

// copyBucket copies a bucket in key order.
func (db *DB) copyBucket(to *bolt.DB, name Bucket) error {
	seed := bucketSeed(name)
	return db.View(func(from *Tx) error {
		c := from.Scan(name)
		k, v := c.Seek(nil)
		for first := true; first || k != nil; first = false {
			err := to.Update(func(tx *bolt.Tx) error {
				b, err := tx.CreateBucketIfNotExists([]byte(name))
				if err != nil {
					return err
				}
				b.FillPercent = fillPercent
				for n := 0; k != nil && n < upgradeBatch; k, v = c.Next() {
					key := append([]byte{}, k...)
					if err := b.Put(key, appendSealed(nil, seed, key, v)); err != nil {
						return err
					}
					n += len(k) + len(v)
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}
