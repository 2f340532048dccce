package store

import (
	"math"
	"runtime/debug"
	"sync"
)

// View runs fn on a snapshot of the committed state, and returns the error of fn. With Options.Log, that is at least
// the state that any node had committed before the call. Slices that fn reads are valid until it returns. If fn reads
// damaged data, it ends early (see Tx) and View returns ErrDamaged.
//
// A View must not call View or Update of the same DB. A long View keeps the pages of its snapshot from being reused,
// so the file grows while others write.
func (db *DB) View(fn func(*Tx) error) error {
	if err := db.waitCurrent(); err != nil {
		return err
	}
	return db.ViewLocal(fn)
}

// ViewLocal is View without the wait for what other nodes have committed: with Options.Log it may see an old state. It
// is for work that checks in an Update what it has found.
func (db *DB) ViewLocal(fn func(*Tx) error) (err error) {
	tx := transactions.Get().(*Tx)
	if err := db.beginRead(tx); err != nil {
		return err
	}
	defer func() {
		tx.endRead()
		transactions.Put(tx)
	}()
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if v := recover(); v != nil {
			var failed bool
			if err, failed = db.failureOf(v); !failed {
				panic(v)
			}
		}
	}()
	return fn(tx)
}

// waitCurrent returns once everything that any node has committed before the call is visible.
func (db *DB) waitCurrent() error {
	if db.replica == nil || db.replica.local {
		return nil
	}
	return logError(db.replica.log.Barrier())
}

// transactions pools the transactions of Views.
var transactions = sync.Pool{New: func() any { return new(Tx) }}

// beginRead makes tx a transaction on the currently committed state.
func (db *DB) beginRead(tx *Tx) error {
	r, err := db.acquire()
	if err != nil {
		return err
	}
	l := r.layers
	*tx = Tx{db: db, reader: r}
	tx.mem = [2]*memtable{l.active, l.frozen}
	tx.snapshot = [2]uint64{l.active.visible.Load(), math.MaxUint64}
	return nil
}

// endRead ends the transaction.
func (tx *Tx) endRead() {
	tx.flushTouched()
	tx.closeFile()
	tx.db.readers.release(tx.reader)
	*tx = Tx{}
}
