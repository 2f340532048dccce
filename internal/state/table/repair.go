package table

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/lazuli-storage/lazuli/internal/state/table/entity"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// RepairOptions configure [Repair]. All fields are needed.
type RepairOptions struct {
	// Before is called once, before the first change, for example to keep a copy of the file.
	Before func() error
	// Note is called for each change; lost means that something could not be kept.
	Note func(what string, lost bool)
}

// Repair puts the records in order that the database of a stopped service still has, after damage took some of them: a
// table that has lost its record gets the name lostID, and parts of a log of changes that cannot be read go.
func Repair(path string, o RepairOptions) error {
	db, err := store.Open(path, store.Options{Buckets: Buckets(), ReadOnly: true})
	if err != nil {
		return err
	}
	r := repair{fixes: &store.Fixes{}, note: o.Note}
	err = db.View(func(tx *store.Tx) error { r.plan(tx); return nil })
	if err = errors.Join(err, db.Close()); err != nil || r.fixes.Len() == 0 {
		return err
	}
	if err := o.Before(); err != nil {
		return err
	}
	if db, err = store.Open(path, store.Options{Buckets: Buckets()}); err != nil {
		return err
	}
	return errors.Join(r.fixes.Apply(db), db.Close())
}

// repair is a repair under way.
type repair struct {
	fixes *store.Fixes
	note  func(what string, lost bool)
}

func (r *repair) plan(tx *store.Tx) {
	account, next := "", uint64(0)
	known := make(map[uint64]bool) // tables that exist or are deleted
	each := func(b store.Bucket, fn func(k, v []byte)) {
		cur := tx.Cursor(b)
		for k, v := cur.Seek(nil); k != nil; k, v = cur.Next() {
			fn(k, v)
		}
	}
	each(bucketTables, func(k, v []byte) {
		if t, err := decodeTable(v); err == nil {
			account, _, _ = splitTableKey(k)
			known[t.id], next = true, max(next, t.id+1)
		}
	})
	each(bucketDeleted, func(k, _ []byte) {
		if len(k) != entity.TableIDLen {
			return
		}
		id := binary.BigEndian.Uint64(k)
		// The table exists as well: the mark would have its entities removed.
		if known[id] {
			r.fixes.Delete(bucketDeleted, k)
		}
		known[id], next = true, max(next, id+1)
	})
	if account == "" {
		account = anyAccount(tx)
	}
	// This adds to known the tables that it restores, and the logs of changes below are examined by known.
	r.tables(tx, account, known, &next)
	watched := make(map[uint64]watchRecord)
	each(bucketWatched, func(k, v []byte) {
		if w, err := decodeWatch(v); err == nil && len(k) == entity.TableIDLen && known[binary.BigEndian.Uint64(k)] {
			watched[binary.BigEndian.Uint64(k)] = w
		} else {
			r.fixes.Delete(bucketWatched, k)
		}
	})
	changes := 0
	each(bucketChanges, func(k, v []byte) {
		ch, err := decodeChange(k, v) // which checks the key as well
		var w watchRecord
		if err == nil {
			w = watched[binary.BigEndian.Uint64(k)] // without one, it has no numbers
		}
		if err != nil || ch.number < w.first || ch.number >= w.next {
			r.fixes.Delete(bucketChanges, k)
			changes++
		}
	})
	if changes > 0 {
		r.note(fmt.Sprintf("%d records of logs of changes that are not complete", changes), true)
	}
	// An id that is given twice would put the entities of two tables together.
	if v := tx.Get(bucketService, keyNextTableID); next > 0 && (len(v) != 8 || binary.BigEndian.Uint64(v) < next) {
		r.fixes.Put(bucketService, keyNextTableID, tableIDKey(next))
	}
}

// tables gives tables that have entities, and no record, another one.
func (r *repair) tables(tx *store.Tx, account string, known map[uint64]bool, next *uint64) {
	cur := tx.Cursor(bucketEntities)
	// Each step seeks the first entity of the next id, so that the time depends on the number of tables, not of
	// entities.
	for k, _ := cur.Seek(nil); len(k) >= 8; {
		id := binary.BigEndian.Uint64(k)
		if !known[id] {
			t := Table{Name: fmt.Sprintf("lost%d", id), Created: ticks.Of(time.Now()), id: id}
			r.fixes.Put(bucketTables, tableKey(account, t.Name), t.encode())
			r.note(fmt.Sprintf("the name and policies of a table: its entities are in table %s of account %s", t.Name, account),
				true)
			known[id], *next = true, max(*next, id+1)
		}
		if id++; id == 0 {
			return
		}
		k, _ = cur.Seek(tableIDKey(id))
	}
}

// anyAccount returns an account of the file, for tables that have lost theirs.
func anyAccount(tx *store.Tx) string {
	k, _ := tx.Cursor(bucketService).Seek(propertiesKey(""))
	if account, ok := bytes.CutPrefix(k, propertiesKey("")); ok {
		return string(account)
	}
	return "devstoreaccount1"
}
