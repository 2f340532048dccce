package table

import (
	"bytes"
	"cmp"

	"github.com/lazuli-storage/lazuli/internal/state/table/entity"
	"github.com/lazuli-storage/lazuli/internal/state/table/filter"
)

// Scope is a range of keys that a caller is limited to: from Start to End, both inclusive, in the order of the store.
type Scope struct {
	// Start and End are nil for no bound.
	Start, End *Bound
}

// Bound is one end of a [Scope].
type Bound struct {
	Partition string
	// Row is nil for the whole partition.
	Row *string
}

// compare orders the keys of an entity against the bound.
func (b *Bound) compare(partition, row []byte) int {
	o := entity.CompareStrings(partition, []byte(b.Partition))
	if o == 0 && b.Row != nil {
		o = entity.CompareStrings(row, []byte(*b.Row))
	}
	return cmp.Compare(o, 0)
}

// Includes reports whether the entity with these keys is in the scope. A nil Scope includes every entity.
func (s *Scope) Includes(partition, row []byte) bool {
	return s == nil || (s.Start == nil || s.Start.compare(partition, row) >= 0) &&
		(s.End == nil || s.End.compare(partition, row) <= 0)
}

// confine intersects the ranges of a table's plan with the scope.
func (s *Scope) confine(p filter.Plan, table uint64) filter.Plan {
	if s == nil {
		return p
	}
	start, end := s.keys(table)
	ranges := make([]filter.Range, 0, len(p.Ranges))
	for _, r := range p.Ranges {
		if bytes.Compare(r.Start, start) < 0 {
			// A point before the scope becomes an empty range, which is dropped below.
			r.Start, r.Point = start, false
		}
		if bytes.Compare(r.End, end) > 0 {
			r.End = end
		}
		if bytes.Compare(r.Start, r.End) < 0 {
			ranges = append(ranges, r)
		}
	}
	p.Ranges = ranges
	return p
}

// keys returns the first key of the scope and the first key after it.
func (s *Scope) keys(table uint64) (start, end []byte) {
	start, end = entity.AppendTableID(nil, table), entity.AppendTableID(nil, table+1)
	if b := s.Start; b != nil {
		row := ""
		if b.Row != nil {
			row = *b.Row
		}
		start = entity.AppendKey(nil, table, b.Partition, row)
	}
	if b := s.End; b != nil {
		if b.Row != nil {
			// The bound belongs to the scope: 0x00 makes the first key behind it.
			end = append(entity.AppendKey(nil, table, b.Partition, *b.Row), 0)
		} else {
			// 0x00 ends the partition in a key, so 0x01 is behind all of its rows.
			end = append(entity.AppendKeyPart(entity.AppendTableID(nil, table), b.Partition), 1)
		}
	}
	return start, end
}
