package store

import (
	"runtime/debug"

	"github.com/lazuli-storage/lazuli/internal/storage/bboltpage"
)

// Check verifies the file: its structure, by bbolt's check and by package bboltpage, and every value. It calls report
// for every violation and returns an error only if it could not run. It reads the whole file.
func (db *DB) Check(report func(error)) error {
	damaged := false
	err := db.checkValues(func(err error) { damaged = true; report(err) })
	if err != nil || damaged {
		return err // bbolt's check would read past the ends of damaged pages
	}
	tx, err := db.bolt.Begin(!db.readOnly) // no writer may run meanwhile
	if err != nil {
		return closedOr(err)
	}
	defer func() { _ = tx.Rollback() }()
	for err := range tx.Check() {
		report(err)
	}
	return nil
}

// checkValues reads every leaf and value.
func (db *DB) checkValues(report func(error)) (err error) {
	tx, err := db.bolt.Begin(false)
	if err != nil {
		return closedOr(err)
	}
	defer func() { _ = tx.Rollback() }()
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if v := recover(); v != nil {
			failure, failed := db.failureOf(v)
			if !failed {
				panic(v)
			}
			report(failure)
		}
	}()
	s := db.pages.Snapshot(tx, bboltpage.SnapshotOptions{Direct: tx.Size() > db.directAbove})
	defer s.Release()
	for i, name := range db.buckets {
		t, ok, err := s.Bucket([]byte(name), nil)
		if ok && err == nil {
			err = db.checkBucket(&s, t, i, report)
		}
		if err != nil {
			report(asDamage(db.path, err))
		}
	}
	return nil
}

// checkBucket reads a bucket to its end, or up to damaged pages.
func (db *DB) checkBucket(s *bboltpage.Snapshot, t bboltpage.Tree, bucket int, report func(error)) error {
	c := s.Scan(t, nil)
	err := c.Seek(nil)
	for k, v := c.Pair(); err == nil && k != nil; k, v = c.Pair() {
		if _, wrong := db.unseal(bucket, k, v); wrong != nil {
			report(wrong)
		}
		err = c.Next()
	}
	return err
}
