package store

import (
	"bufio"
	"errors"

	bolt "go.etcd.io/bbolt"
)

// Extract writes everything that a View sees to a new file, that of a server alone: with Options.Log, at least what any
// node had committed before the call. Reads and writes go on meanwhile.
func (db *DB) Extract(path string) error {
	pins, err := PinAll(db)
	if err != nil {
		return err
	}
	defer pins[0].Close()
	return pins[0].Extract(path)
}

// createFile writes a new file from the frames of a snapshot. finish records in the last transaction what the file is
// complete up to.
func createFile(path string, buckets []Bucket, r *bufio.Reader, finish func(*bolt.Tx) error) error {
	b, err := bolt.Open(path, 0o600, &bolt.Options{NoSync: true, NoGrowSync: true, FreelistType: bolt.FreelistMapType})
	if err != nil {
		return err
	}
	b.AllocSize = allocSize
	err = restoreAll(b, buckets, r)
	if err == nil {
		err = b.Update(func(tx *bolt.Tx) error {
			return errors.Join(finish(tx), putVersion(tx, ""))
		})
	}
	return errors.Join(err, b.Sync(), b.Close())
}
