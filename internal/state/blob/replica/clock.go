package replica

import (
	"encoding/binary"
	"time"

	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// clockKey is the key of the last time in ticks that identifies a change, of a store of a cluster.
var clockKey = []byte("clock")

func clockOf(tx *store.Tx) ticks.Ticks {
	if v := tx.Get(record.MetaBucket, clockKey); len(v) == 8 {
		return ticks.Ticks(binary.BigEndian.Uint64(v))
	}
	return 0
}

// Stamp returns the time that identifies a change, given the one that the process has drawn for it before the
// transaction.
func (s *Node) Stamp(tx *store.Tx, drawn ticks.Ticks) ticks.Ticks {
	if !s.replicated {
		return drawn
	}
	// The clock is in the database, so the record that carries this time is valid only if no other node has taken a
	// time in between.
	at := max(drawn, clockOf(tx)+1)
	tx.Put(record.MetaBucket, clockKey, binary.BigEndian.AppendUint64(nil, uint64(at)))
	return at
}

// Now returns the time of a request for a transaction that changes something.
func (s *Node) Now(tx *store.Tx, request time.Time) ticks.Ticks {
	now := ticks.Of(request)
	if s.replicated {
		now = max(now, clockOf(tx))
	}
	return now
}
