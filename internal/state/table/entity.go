package table

import (
	"time"

	"github.com/lazuli-storage/lazuli/internal/state/table/entity"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// Write carries one mutation out and returns the entity's new record, nil after a [Remove]. It takes over the
// mutation's record. It fails with [ErrTableNotFound], with the errors of the state machine (see [Mutation]), and with
// those of package entity for an entity that grows too large.
func (s *Store) Write(account, table string, m *Mutation, now time.Time) (r entity.Record, err error) {
	at := s.ticks.Next(now)
	// Outside the transaction, since the record belongs to the mutation: in most runs the machine can use it as it is.
	m.stamp(at)
	err = s.db.UpdateFor(account, func(tx *store.Tx) error {
		id, err := idOf(tx, account, table)
		if err != nil {
			return err
		}
		w := writer{tx: tx, log: &s.changes, table: id, at: at, now: ticks.Of(now)}
		w.reserve([]*Mutation{m})
		r, err = w.apply(m)
		return err
	})
	return r, err
}

// WriteAll carries mutations of one partition out in one transaction and returns the entities' new records in the order
// of the mutations: all of them are done, or none. It takes over the mutations' records. A failure is a
// [*MutationError] that wraps what [Store.Write] returns.
func (s *Store) WriteAll(account, table string, list []*Mutation, now time.Time) (records []entity.Record, err error) {
	// One time for all: the transaction is one change.
	at := s.ticks.Next(now)
	for _, m := range list {
		m.stamp(at)
	}
	err = s.db.UpdateFor(account, func(tx *store.Tx) error {
		id, err := idOf(tx, account, table)
		if err != nil {
			return &MutationError{0, err}
		}
		w := writer{tx: tx, log: &s.changes, table: id, at: at, now: ticks.Of(now)}
		w.reserve(list)
		records = make([]entity.Record, len(list))
		for i, m := range list {
			if records[i], err = w.apply(m); err != nil {
				return &MutationError{i, err}
			}
		}
		return nil
	})
	return records, err
}
