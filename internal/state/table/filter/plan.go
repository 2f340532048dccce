package filter

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/lazuli-storage/lazuli/internal/state/table/entity"
)

// Kind is the cost class of a plan, in the words of the design guide. A higher one costs more.
// https://learn.microsoft.com/azure/storage/tables/table-storage-design-for-query
type Kind uint8

// The kinds of plans.
const (
	Nothing            Kind = iota // no key can satisfy the filter: no read
	PointQuery                     // keys are known: one read each
	RangeQuery                     // ranges of RowKeys in known partitions
	PartitionScan                  // whole partitions
	PartitionRangeScan             // a range of partitions
	TableScan                      // everything
)

// String returns the name of the kind as the explain header has it.
func (k Kind) String() string {
	return [...]string{"Nothing", "PointQuery", "RangeQuery", "PartitionScan", "PartitionRangeScan", "TableScan"}[k]
}

// Range is a set of keys of the store, from Start up to but not including End. A Point holds the single key Start.
type Range struct {
	Start, End []byte
	Point      bool
}

// Plan is the keys that a query visits.
type Plan struct {
	Kind Kind
	// Ranges are disjoint and in order.
	Ranges []Range
	// Exact means that every key in the ranges satisfies the filter, so that Match need not be called.
	Exact bool
}

// Bounds of planning. Beyond them a plan visits more keys than necessary.
const (
	maxBoxes = 1000
	maxPairs = 10 * maxBoxes
)

// Plan returns the keys of a table that may satisfy the filter.
func (f Filter) Plan(table uint64) Plan {
	boxes, exact := []box{everything}, true
	if f.root != nil {
		boxes, exact = boxesOf(f.root, false)
	}
	p := Plan{Exact: exact}
	for _, b := range boxes {
		r, kind, whole := b.keys(table)
		p.Ranges = append(p.Ranges, r)
		p.Kind = max(p.Kind, kind)
		// A range is one interval of keys, while a box over several partitions has a range of RowKeys in each: then
		// the range has keys that the box has not, and Match must be called.
		p.Exact = p.Exact && whole
	}
	slices.SortFunc(p.Ranges, func(a, b Range) int { return bytes.Compare(a.Start, b.Start) })
	// Ranges may overlap, and an entity in two of them would be returned twice.
	merged := p.Ranges[:0]
	for _, r := range p.Ranges {
		if n := len(merged); n > 0 && bytes.Compare(r.Start, merged[n-1].End) <= 0 {
			last := &merged[n-1]
			if bytes.Compare(r.End, last.End) > 0 {
				last.End, last.Point = r.End, false
			}
			continue
		}
		merged = append(merged, r)
	}
	p.Ranges = merged
	return p
}

// interval is a range of encoded keys, from lo up to but not including hi. A nil hi means no upper bound.
type interval struct{ lo, hi []byte }

// box is the set of keys whose PartitionKey and RowKey are in two intervals. Partitions are compared with the separator
// after them, so that the interval of the partition "p" is from "p\x00" to "p\x01".
type box struct{ partition, row interval }

var everything = box{}

// The bytes after a partition: the separator, and the next byte, which is below every character of a key.
const (
	separator      = 0x00
	afterSeparator = 0x01
	lowestInKey    = 0x20
)

// boxesOf returns boxes that contain every key that may satisfy n, or its negation. exact means that they contain no
// other key.
func boxesOf(n node, negated bool) (boxes []box, exact bool) {
	switch n := n.(type) {
	case literal:
		if bool(n) != negated {
			return []box{everything}, true
		}
		return nil, true
	case not:
		return boxesOf(n.of, !negated)
	case comparison:
		return n.boxes(negated)
	case junction:
		left, e1 := boxesOf(n.left, negated)
		right, e2 := boxesOf(n.right, negated)
		// The negation of an "and" is an "or" of the negations, and the other way round.
		if n.and != negated {
			return intersect(left, right, e1 && e2)
		}
		// A plan that visits too much is right, and only slow. One that grows without bound costs the server its
		// memory.
		if len(left)+len(right) > maxBoxes {
			return []box{everything}, false
		}
		return append(left, right...), e1 && e2
	}
	return []box{everything}, false
}

func intersect(left, right []box, exact bool) ([]box, bool) {
	// Each side contains the intersection, so either of them alone will do, and the filter examines what it has besides.
	if len(left)*len(right) > maxPairs {
		if len(left) < len(right) {
			return left, false
		}
		return right, false
	}
	var out []box
	for _, a := range left {
		for _, b := range right {
			if c := (box{a.partition.and(b.partition), a.row.and(b.row)}); !c.partition.empty() && !c.row.empty() {
				out = append(out, c)
			}
		}
	}
	if len(out) > maxBoxes {
		return left, false
	}
	return out, exact
}

func (i interval) and(j interval) interval {
	if bytes.Compare(j.lo, i.lo) > 0 {
		i.lo = j.lo
	}
	if j.hi != nil && (i.hi == nil || bytes.Compare(j.hi, i.hi) < 0) {
		i.hi = j.hi
	}
	return i
}

func (i interval) empty() bool { return i.hi != nil && bytes.Compare(i.lo, i.hi) >= 0 }

// boxes of a comparison: keys always exist and are always text, so that a negation is another comparison.
func (n comparison) boxes(negated bool) ([]box, bool) {
	if n.property != partitionKey && n.property != rowKey {
		return []box{everything}, false
	}
	if n.value.Type != entity.String { // holds for no key
		if negated {
			return []box{everything}, true
		}
		return nil, true
	}
	op := n.op
	if negated {
		op = op.negated()
	}
	text := entity.AppendKeyPart([]byte{}, n.value.Bytes) // not nil even for '': a nil bound means no bound
	var intervals []interval
	if n.property == partitionKey {
		intervals = partitionIntervals(op, text)
	} else {
		intervals = between(op, text, append(text[:len(text):len(text)], 0))
	}
	boxes := make([]box, len(intervals))
	for i, v := range intervals {
		if n.property == partitionKey {
			boxes[i].partition = v
		} else {
			boxes[i].row = v
		}
	}
	return boxes, true
}

// between returns the interval in which an operator holds, given where a value begins and where the next value begins.
func between(op operator, at, after []byte) []interval {
	switch op {
	case eq:
		return []interval{{at, after}}
	case ne:
		return []interval{{nil, at}, {after, nil}}
	case gt:
		return []interval{{after, nil}}
	case ge:
		return []interval{{at, nil}}
	case lt:
		return []interval{{nil, at}}
	}
	return []interval{{nil, after}}
}

func partitionIntervals(op operator, text []byte) []interval {
	if i := slices.IndexFunc(text, func(c byte) bool { return c < lowestInKey }); i >= 0 {
		// No key has such a character: the constant is between the partition text[:i] and the partitions that begin with it.
		at := append(text[:i:i], afterSeparator)
		switch op {
		case eq:
			return nil
		case ne:
			return []interval{{}}
		}
		return between(op, at, at)
	}
	// The two appends below must not share an array: the second would change the bound of the first.
	text = text[:len(text):len(text)]
	return between(op, append(text, separator), append(text, afterSeparator))
}

// point returns the partition if the interval contains only one.
func (i interval) point() (partition []byte, ok bool) {
	n := len(i.lo) - 1
	if n < 0 || len(i.hi) != n+1 || i.lo[n] != separator || i.hi[n] != afterSeparator || !bytes.Equal(i.lo[:n], i.hi[:n]) {
		return nil, false
	}
	return i.lo[:n], true
}

// keys returns a range of keys that contains the box. whole means that the box contains the range.
func (b box) keys(table uint64) (r Range, kind Kind, whole bool) {
	id := entity.AppendTableID(nil, table)
	at := func(parts ...[]byte) []byte { return bytes.Join(append([][]byte{id}, parts...), nil) }
	partition, ok := b.partition.point()
	if !ok {
		r.Start = at(b.partition.lo)
		if b.partition.hi != nil {
			r.End = at(b.partition.hi)
		} else {
			// The next table's first key, so that the last partition has an end as well.
			r.End = binary.BigEndian.AppendUint64(nil, table+1)
		}
		kind = TableScan
		if len(b.partition.lo) > 0 || b.partition.hi != nil {
			kind = PartitionRangeScan
		}
		return r, kind, len(b.row.lo) == 0 && b.row.hi == nil
	}
	r.Start = at(partition, []byte{separator}, b.row.lo)
	if b.row.hi == nil {
		r.End = at(partition, []byte{afterSeparator})
	} else {
		r.End = at(partition, []byte{separator}, b.row.hi)
	}
	n := len(b.row.lo)
	// The text with a zero byte after it is the next key that could exist: between the two lies exactly one.
	r.Point = len(b.row.hi) == n+1 && b.row.hi[n] == 0 && bytes.Equal(b.row.hi[:n], b.row.lo)
	switch {
	case r.Point:
		kind = PointQuery
	case n > 0 || b.row.hi != nil:
		kind = RangeQuery
	default:
		kind = PartitionScan
	}
	return r, kind, true
}
