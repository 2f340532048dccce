package extent

import "sort"

// indexStep is the distance in bytes between the records in an index. The records between them are found by reading
// from there.
const indexStep = 64 << 10

// index holds the offsets of some records of an extent, so that the record around a part of it can be found. It is
// built as far as it is needed. An extent of 1 GiB needs 64 KiB.
type index struct {
	starts []uint32 // offsets of headers, at least indexStep apart
	end    int64    // the index covers the extent up to here
}

// before returns the offset at which to start the search for the record around an offset.
func (x *index) before(offset int64) int64 {
	if x.end > fileHeaderSize && offset >= x.end {
		return x.end
	}
	if i := sort.Search(len(x.starts), func(i int) bool { return int64(x.starts[i]) > offset }); i > 0 {
		return int64(x.starts[i-1])
	}
	return fileHeaderSize
}

// add adds a record to the index if it is far enough from the last one.
func (x *index) add(start, end int64) {
	if end <= x.end {
		return
	}
	x.end = end
	if n := len(x.starts); n == 0 || start >= int64(x.starts[n-1])+indexStep {
		x.starts = append(x.starts, uint32(start))
	}
}
