package table

import (
	"bytes"
	"slices"

	"github.com/lazuli-storage/lazuli/internal/state/table/entity"
	"github.com/lazuli-storage/lazuli/internal/state/table/filter"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// ViewEntity calls fn with the record of an entity. fn may run twice, and the record is valid until it returns. It
// fails with [ErrTableNotFound] and [ErrEntityNotFound].
func (s *Store) ViewEntity(account, table string, partition, row []byte, fn func(entity.Record)) error {
	return s.viewTable(account, table, func(tx *store.Tx, id uint64) error {
		var room [128]byte
		r := entity.Record(tx.Get(bucketEntities, entity.AppendKey(room[:0], id, partition, row)))
		if r == nil {
			return ErrEntityNotFound
		}
		fn(r)
		return nil
	})
}

// Query is a read of a table's entities in the order of their keys.
type Query struct {
	Filter filter.Filter
	// Scope, if not nil, limits the keys that are read.
	Scope *Scope
	// From, if not nil, is the position to begin at.
	From *Position
}

// Position is the keys of an entity, which need not exist.
type Position struct{ Partition, Row string }

// Visitor receives the entities of a [Store.Scan].
type Visitor interface {
	// Begin is called before the first entity, and again if the scan has to restart: entities visited before must be
	// discarded.
	Begin(plan filter.Plan)
	// Visit receives an entity of the plan's ranges. It still has to match the filter, unless the plan is exact. It
	// returns false to end the scan before this entity. The entity is valid until it returns.
	Visit(e *filter.Entity) (more bool)
}

// Scan visits the entities of a table that may match a query. It returns the position to continue from if the visitor
// stopped it, nil at the end. It fails with [ErrTableNotFound].
func (s *Store) Scan(account, table string, q Query, v Visitor) (next *Position, err error) {
	err = s.viewTable(account, table, func(tx *store.Tx, id uint64) error {
		plan := q.Scope.confine(q.Filter.Plan(id), id)
		// In each run of the transaction, so that the visitor forgets what an earlier run has shown.
		v.Begin(plan)
		ranges := plan.Ranges
		if q.From != nil {
			ranges = after(ranges, entity.AppendKey(nil, id, q.From.Partition, q.From.Row))
		}
		next = scan(tx, ranges, v)
		return nil
	})
	return next, err
}

func scan(tx *store.Tx, ranges []filter.Range, v Visitor) (next *Position) {
	var e filter.Entity
	var last []byte // the key of e up to its RowKey
	visit := func(key, record []byte) bool {
		// The partition mostly is that of the entity before.
		if n := len(last); n == 0 || len(key) < n || string(key[:n]) != string(last) {
			_, _, row, ok := entity.SplitKey(key)
			if !ok {
				return true
			}
			last = append(last[:0], key[:len(key)-len(row)]...)
			// A copy, since the next move of the cursor may overwrite the key.
			e.PartitionKey = entity.DecodeKeyPart(last[entity.TableIDLen : len(last)-1])
		}
		e.RowKey, e.Record = entity.DecodeKeyPart(key[len(last):]), entity.Record(record)
		return v.Visit(&e)
	}
	var cur *store.Cursor
	for _, r := range ranges {
		if r.Point {
			if v := tx.Get(bucketEntities, r.Start); v != nil && !visit(r.Start, v) {
				return &Position{string(e.PartitionKey), string(e.RowKey)}
			}
			continue
		}
		if cur == nil {
			// Late: a query for single entities needs no cursor.
			cur = tx.Scan(bucketEntities)
		}
		// Damage before the position is an error within the table: the entity that is sought may be what is damaged.
		in := store.Span{From: r.Start[:min(len(r.Start), entity.TableIDLen)], To: r.End}
		for k, v := cur.SeekWithin(r.Start, in); k != nil; k, v = cur.Next() {
			if !visit(k, v) {
				return &Position{string(e.PartitionKey), string(e.RowKey)}
			}
		}
	}
	return nil
}

// after removes the part of sorted ranges before key.
func after(ranges []filter.Range, key []byte) []filter.Range {
	for len(ranges) > 0 && bytes.Compare(ranges[0].End, key) <= 0 {
		ranges = ranges[1:]
	}
	if len(ranges) > 0 && bytes.Compare(ranges[0].Start, key) < 0 {
		// The plan is the caller's, which may use it again for the next page.
		ranges = slices.Clone(ranges)
		ranges[0].Start, ranges[0].Point = key, false
	}
	return ranges
}
