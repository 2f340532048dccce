// Package sweep removes many keys of a store in the background. Each transaction removes one batch, so that requests do
// not wait long, and a sweep continues after a restart of the process.
//
// [Prefix] removes the keys with a common prefix, inside a transaction of the caller. [Run] walks a bucket and removes
// the entries that a [Rule] selects.
package sweep

import (
	"bytes"
	"context"
	"time"

	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// Batch is the maximum number of keys that one transaction removes.
const Batch = 1000

// Prefix removes up to limit keys of a bucket that begin with prefix, at or after from; a nil from is the first. It
// calls each, if not nil, before it removes a key. next is the key to continue from, nil when no key is left.
//
// Continuing from next avoids walking past the keys that earlier batches removed.
func Prefix(tx *store.Tx, b store.Bucket, prefix, from []byte, limit int, each func(k, v []byte) error) (next []byte,
	err error) {
	if from == nil {
		from = prefix
	}
	var keys [][]byte
	c := tx.Cursor(b)
	for k, v := c.Seek(from); k != nil && bytes.HasPrefix(k, prefix); k, v = c.Next() {
		if len(keys) == limit {
			next = bytes.Clone(k)
			break
		}
		if each != nil {
			if err := each(k, v); err != nil {
				return nil, err
			}
		}
		keys = append(keys, bytes.Clone(k))
	}
	for _, k := range keys {
		tx.Delete(b, k)
	}
	return next, nil
}

// Decision is the result of a [Rule] for an entry.
type Decision uint8

const (
	// Keep leaves the entry.
	Keep Decision = iota
	// Remove removes it.
	Remove
	// Stop keeps the entry and all entries after it. It needs a bucket that is sorted by the criterion of the rule.
	Stop
)

// Rule selects the entries of a bucket to remove. Its functions may be called more than once for an entry.
type Rule struct {
	Bucket store.Bucket
	// Decide is called for each entry, and again in the transaction that removes it: the entry may have changed.
	Decide func(k, v []byte) (Decision, error)
	// Remove, if set, runs in the transaction that removes the entry. It returns the number of content bytes that lost
	// their last reference.
	Remove func(tx *store.Tx, k, v []byte) (freed int64, err error)
}

// Result is the outcome of a sweep.
type Result struct {
	// Removed is the number of removed entries.
	Removed int
	// Freed is the sum of the results of Rule.Remove, in bytes.
	Freed int64
}

// Run walks the bucket once and removes the entries that the rule selects, until ctx is done. The result is valid also
// with an error: it counts what was committed.
func Run(ctx context.Context, db *store.DB, r Rule) (done Result, err error) {
	for from := []byte{}; from != nil; {
		if err := ctx.Err(); err != nil {
			return done, err
		}
		var found [][]byte
		if found, from, err = r.find(db, from); err != nil {
			return done, err
		}
		if len(found) == 0 {
			continue
		}
		began := time.Now()
		batch, err := r.remove(db, found)
		if err != nil {
			return done, err
		}
		done.Removed += batch.Removed
		done.Freed += batch.Freed
		if from != nil {
			Pause(ctx, began, len(found))
		}
	}
	return done, nil
}

// find returns up to [Batch] keys to remove, and the key to continue from, nil at the end.
func (r *Rule) find(db *store.DB, from []byte) (found [][]byte, next []byte, err error) {
	err = db.ViewLocal(func(tx *store.Tx) error { // remove checks again
		c := tx.Cursor(r.Bucket)
		for k, v := c.Seek(from); k != nil; k, v = c.Next() {
			if len(found) == Batch {
				next = bytes.Clone(k)
				return nil
			}
			what, err := r.Decide(k, v)
			switch {
			case err != nil:
				return err
			case what == Stop:
				return nil
			case what == Remove:
				found = append(found, bytes.Clone(k))
			}
		}
		return nil
	})
	return found, next, err
}

// remove removes those of the keys that the rule still selects.
func (r *Rule) remove(db *store.DB, keys [][]byte) (done Result, err error) {
	err = db.Update(func(tx *store.Tx) error {
		done = Result{}
		for _, k := range keys {
			v := tx.Get(r.Bucket, k)
			if v == nil {
				continue
			}
			what, err := r.Decide(k, v)
			if err != nil {
				return err
			}
			if what != Remove {
				continue
			}
			if r.Remove != nil {
				freed, err := r.Remove(tx, k, v)
				if err != nil {
					return err
				}
				done.Freed += freed
			}
			tx.Delete(r.Bucket, k)
			done.Removed++
		}
		return nil
	})
	return done, err
}
