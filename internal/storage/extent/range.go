package extent

import (
	"cmp"
	"slices"
)

// Range is a range of an extent that begins with a record and ends with one.
type Range struct {
	From int64 `json:"from"`
	To   int64 `json:"to"`
}

// covers reports whether every byte of parts is in one of the ranges, which are sorted.
func covers(ranges, parts []Range) bool {
	for _, p := range parts {
		i, found := slices.BinarySearchFunc(ranges, p.From, func(r Range, at int64) int { return cmp.Compare(r.From, at) })
		if !found {
			i--
		}
		if i < 0 || ranges[i].To < p.To {
			return false
		}
	}
	return true
}

// A Ref is one reference to content in the metadata.
type Ref struct {
	Slice Slice
	Key   []byte // identifies the reference to the owner; this package does not interpret it
}

// span is a part of an extent. Extents are always shorter than 4 GiB.
type span struct{ offset, length uint32 }

func (x span) end() int64 { return int64(x.offset) + int64(x.length) }

// coverage is the set of ranges of an extent that have intact records: sorted, apart from each other.
type coverage struct{ ranges []covered }

type covered struct{ from, to int64 }

// add adds a range.
func (c *coverage) add(from, to int64) {
	i, _ := slices.BinarySearchFunc(c.ranges, from, func(r covered, at int64) int { return cmp.Compare(r.to, at) })
	j := i // ranges i to j-1 touch the new one
	for ; j < len(c.ranges) && c.ranges[j].from <= to; j++ {
		from, to = min(from, c.ranges[j].from), max(to, c.ranges[j].to)
	}
	c.ranges = slices.Replace(c.ranges, i, j, covered{from, to})
}

// gap returns the first range between from and size that is not covered; n is 0 if everything is covered.
func (c *coverage) gap(from, size int64) (at, n int64) {
	for _, r := range c.ranges {
		if r.to <= from {
			continue
		}
		if r.from > from {
			return from, min(r.from, size) - from
		}
		if from = r.to; from >= size {
			return 0, 0
		}
	}
	return from, max(size-from, 0)
}

// lacking returns how many bytes between from and to are not covered.
func (c *coverage) lacking(from, to int64) int64 {
	n := max(to-from, 0)
	for _, r := range c.ranges {
		n -= max(min(r.to, to)-max(r.from, from), 0)
	}
	return n
}

// spans returns the ranges.
func (c *coverage) spans() []Range {
	list := make([]Range, len(c.ranges))
	for i, r := range c.ranges {
		list[i] = Range{r.from, r.to}
	}
	return list
}
