package store

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	bolt "go.etcd.io/bbolt"
)

// Extract writes everything that a View sees to a new file, that of a server alone: with Options.Log, at least what any
// node had committed before the call. Reads and writes go on meanwhile.
func (db *DB) Extract(path string) error {
	if err := db.waitCurrent(); err != nil {
		return err
	}
	var tx Tx
	if err := db.beginRead(&tx); err != nil {
		return err
	}
	defer tx.endRead()
	if err := db.syncAttached(); err != nil {
		return err
	}
	frames, w := io.Pipe()
	written := make(chan error, 1)
	go func() {
		err := db.writeFrames(&tx, w)
		written <- errors.Join(err, w.CloseWithError(err))
	}()
	err := createFile(path, db.buckets, bufio.NewReader(frames),
		func(tx *bolt.Tx) error { return putProgress(tx, 0, 0, true) })
	frames.CloseWithError(err)
	if err = errors.Join(err, <-written); err != nil {
		return fmt.Errorf("store: extract %s: %w", filepath.Base(path), err)
	}
	return db.fs.SyncDir(filepath.Dir(path))
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
