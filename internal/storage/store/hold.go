package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// hold appends a hold, and returns when this node has applied it.
func (db *DB) hold(number uint64) error {
	return db.Update(func(tx *Tx) error {
		w := Write{[]byte(holdKey), binary.LittleEndian.AppendUint64(nil, number)}
		tx.writes.attached = append(tx.writes.attached, w)
		tx.writes.bytes += len(w.Key) + len(w.Value)
		return nil
	})
}

// EndHold ends the hold with a number on this node, if it is in force. Who has pinned the stores calls it on all nodes;
// one that it does not reach goes on after [HoldLease].
func (db *DB) EndHold(number uint64) { db.holds.release(number, time.Now()) }

// ErrNotHeld means that the holds took so long that nodes may have gone on before the pins were made.
var ErrNotHeld = errors.New("store: the writes of the logs could not be held long enough")

// PinHeld pins views of replicated logs at one moment of all of them: if a write to one of them was acknowledged by any
// node before another began, or visible to the client that made that one, the pins have the first if they have the
// second. It holds the writes of all nodes meanwhile, under a number that the caller ends on all nodes, also after an
// error. The order of the stores must be the same for all callers, who otherwise wait for each other. Close each pin.
//
// Errors: [ErrNotHeld], after which it can be tried again; those of Update.
func PinHeld(number uint64, dbs ...*DB) (pins []*Pin, err error) {
	began := time.Now()
	for _, db := range dbs {
		if db.replica == nil || db.replica.local {
			return nil, errors.New("store: PinHeld is for views of replicated logs")
		}
		if err := db.hold(number); err != nil {
			return nil, err
		}
	}
	if pins, err = PinAll(dbs...); err != nil {
		return nil, err
	}
	if took := time.Since(began); took > HoldLease/2 {
		for _, p := range pins {
			p.Close()
		}
		return nil, fmt.Errorf("%w: the holds took %v", ErrNotHeld, took.Round(time.Millisecond))
	}
	return pins, nil
}
