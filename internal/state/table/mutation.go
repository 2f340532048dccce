package table

import (
	"github.com/lazuli-storage/lazuli/internal/state/table/entity"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// Change is the effect of a [Mutation] on its entity.
type Change uint8

// The changes.
const (
	Insert          Change = iota // creates the entity
	Update                        // replaces it
	Merge                         // replaces the properties it names and keeps the others
	InsertOrReplace               // creates or replaces it
	InsertOrMerge                 // creates it or merges into it
	Remove                        // deletes it
)

// Mutation is one change of one entity. Its state machine, by whether the entity exists and Condition holds:
//
//	                 | no entity         | condition holds | condition does not hold
//	-----------------+-------------------+-----------------+------------------------
//	Insert           | created           | ErrEntityExists | (has no condition)
//	Update           | ErrEntityNotFound | replaced        | ErrConditionNotMet
//	Merge            | ErrEntityNotFound | merged          | ErrConditionNotMet
//	InsertOrReplace  | created           | replaced        | (has no condition)
//	InsertOrMerge    | created           | merged          | (has no condition)
//	Remove           | ErrEntityNotFound | deleted         | ErrConditionNotMet
type Mutation struct {
	Change Change
	// Partition and Row are the keys, in UTF-8. They must have passed [entity.CheckKey].
	Partition, Row []byte
	// Record has the properties; nil for Remove. Its Timestamp is set by the store.
	Record entity.Record
	// Condition is for Update, Merge and Remove.
	Condition Condition
	// Created is set by the store: the entity did not exist before.
	Created bool
}

// Condition is a condition on the version of an entity. The zero value always holds.
type Condition struct {
	Kind ConditionKind
	// ETag is the Timestamp of the version, for [ThisVersion].
	ETag ticks.Ticks
}

// ConditionKind is a form of [Condition].
type ConditionKind uint8

// The kinds of conditions.
const (
	// Unconditional holds for every entity.
	Unconditional ConditionKind = iota
	// AnyVersion holds for every entity that exists.
	AnyVersion
	// ThisVersion holds for the entity with the ETag.
	ThisVersion
	// NoVersion holds for no entity: the caller sent a well-formed tag that no entity can have.
	NoVersion
)

// holds evaluates the condition on an entity that exists.
func (c Condition) holds(r entity.Record) bool {
	switch c.Kind {
	case ThisVersion:
		return r.Timestamp() == c.ETag
	case NoVersion:
		return false
	}
	return true
}

// next is the state machine: the entity's record after the mutation at the time at, nil after Remove. old is the record
// before, nil without an entity. Neither old nor the mutation is changed.
func (m *Mutation) next(old entity.Record, at ticks.Ticks) (entity.Record, error) {
	switch {
	case old == nil:
		switch m.Change {
		case Update, Merge, Remove:
			return nil, ErrEntityNotFound
		}
		return stamped(m.Record, at), nil
	case m.Change == Insert:
		return nil, ErrEntityExists
	case !m.Condition.holds(old):
		return nil, ErrConditionNotMet
	}
	// The Timestamp is the ETag as well: it must differ from the one before, also if the clock was set back.
	at = max(at, old.Timestamp()+1)
	switch m.Change {
	case Remove:
		return nil, nil
	case Merge, InsertOrMerge:
		merged := old.Merge(m.Record).Sorted()
		merged.SetTimestamp(at)
		// Handlers have checked the request. Only here it is known how large the entity becomes with what it had.
		if err := entity.CheckSize(m.Partition, m.Row, merged); err != nil {
			return nil, err
		}
		return merged, nil
	}
	return stamped(m.Record, at), nil
}

// stamp sets the Timestamp of the mutation's record.
func (m *Mutation) stamp(at ticks.Ticks) {
	if m.Record != nil {
		m.Record.SetTimestamp(at)
	}
}

// stamped returns r with the timestamp: r itself if it has it, else a copy, since closures of Update may run twice.
func stamped(r entity.Record, at ticks.Ticks) entity.Record {
	if r.Timestamp() != at {
		r = append(make(entity.Record, 0, len(r)), r...)
		r.SetTimestamp(at)
	}
	return r
}

// writer carries out the mutations of one transaction.
type writer struct {
	tx    *store.Tx
	log   *changeLog
	table uint64
	// at is their Timestamp, now the time of the clock: after a clock that was ahead the Timestamps go on from the latest
	// one.
	at, now ticks.Ticks
	// keys is memory for the keys, which stay until the transaction ends.
	keys []byte
}

// reserve provides memory for the keys of mutations. It suffices unless a key has characters that become longer.
func (w *writer) reserve(list []*Mutation) {
	n := 0
	for _, m := range list {
		n += entity.TableIDLen + 1 + len(m.Partition) + len(m.Row)
	}
	w.keys = make([]byte, 0, n)
}

// key returns the key of a mutation's entity.
func (w *writer) key(m *Mutation) []byte {
	n := len(w.keys)
	w.keys = entity.AppendKey(w.keys, w.table, m.Partition, m.Row)
	return w.keys[n:len(w.keys):len(w.keys)]
}

// apply carries the mutation out and returns the entity's new record, nil after Remove.
func (w *writer) apply(m *Mutation) (entity.Record, error) {
	tx, key := w.tx, w.key(m)
	old := entity.Record(tx.Get(bucketEntities, key))
	r, err := m.next(old, w.at)
	if err != nil {
		return nil, err
	}
	m.Created = old == nil
	c := FeedChange{Kind: Updated, At: w.at, Partition: m.Partition, Row: m.Row, Before: old, After: r}
	if r == nil {
		c.Kind = Deleted
		tx.Delete(bucketEntities, key)
	} else {
		c.At = r.Timestamp()
		if old == nil {
			c.Kind = Inserted
		}
		tx.Put(bucketEntities, key, r)
	}
	return r, w.log.append(tx, w.table, c, w.now)
}
