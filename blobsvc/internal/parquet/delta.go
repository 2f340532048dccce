package parquet

import "encoding/binary"

// delta reads DELTA_BINARY_PACKED: differences in blocks, which consist of miniblocks with a bit width each.
// https://github.com/apache/parquet-format/blob/master/Encodings.md#DELTAENC
type delta struct {
	b      []byte // the bytes that have not been read
	minis  int    // miniblocks in a block
	each   int    // numbers in a miniblock
	left   int    // numbers
	first  bool
	last   int64
	least  int64  // is added to each difference of the block
	widths []byte // bit widths of the remaining miniblocks
	have   int    // numbers left in the miniblock
	width  int
	bits   packed
}

// newDelta reads the header of an encoding of at most most numbers.
func newDelta(b []byte, most int) (d delta, err error) {
	r := thrift{b: b}
	block, minis, total := r.uvarint(), r.uvarint(), r.uvarint()
	d.last = r.int()
	const maxBlock = 1 << 20
	if r.err != nil || block == 0 || block > maxBlock || block%128 != 0 || minis == 0 || minis > block/32 ||
		block%minis != 0 ||
		(block/minis)%32 != 0 || total > uint64(most) {
		return d, errEncoding
	}
	d.b = b[r.at:]
	d.minis = int(minis)
	d.each = int(block / minis)
	d.left = int(total)
	d.first = true
	return d, nil
}

func (d *delta) next() (int64, error) {
	if d.left == 0 {
		return 0, errEncoding
	}
	d.left--
	if d.first {
		d.first = false
		return d.last, nil
	}
	if d.have == 0 {
		if err := d.begin(); err != nil {
			return 0, err
		}
	}
	d.have--
	n, ok := d.bits.next(d.width)
	if !ok {
		return 0, errEncoding
	}
	d.last += d.least + int64(n)
	return d.last, nil
}

// begin starts the next miniblock.
func (d *delta) begin() error {
	if len(d.widths) == 0 {
		u, n := binary.Uvarint(d.b)
		if n <= 0 || len(d.b)-n < d.minis {
			return errEncoding
		}
		d.least = int64(u>>1) ^ -int64(u&1)
		d.widths, d.b = d.b[n:n+d.minis], d.b[n+d.minis:]
	}
	d.width, d.widths = int(d.widths[0]), d.widths[1:]
	if d.width > 64 {
		return errEncoding
	}
	size := min(d.width*d.each/8, len(d.b)) // some writers truncate the last one
	d.bits, d.b, d.have = packed{b: d.b[:size]}, d.b[size:], d.each
	return nil
}

// rest skips all numbers and returns the bytes after them. It must be called before the first number is read.
func (d delta) rest() ([]byte, error) {
	for d.left--; d.left > 0; d.left -= d.have {
		if err := d.begin(); err != nil {
			return nil, err
		}
	}
	return d.b, nil
}

// lengths reads DELTA_LENGTH_BYTE_ARRAY: the lengths of all values, then their bytes.
type lengths struct {
	n delta
	b []byte
}

func newLengths(b []byte, most int) (l lengths, err error) {
	if l.n, err = newDelta(b, most); err != nil {
		return l, err
	}
	l.b, err = l.n.rest()
	return l, err
}

func (l *lengths) next() ([]byte, error) {
	n, err := l.n.next()
	if err != nil {
		return nil, err
	}
	if n < 0 || n > int64(len(l.b)) {
		return nil, errEncoding
	}
	v := l.b[:n:n]
	l.b = l.b[n:]
	return v, nil
}

// prefixes reads DELTA_BYTE_ARRAY: for each value the length of the prefix that it shares with the previous value, and
// its suffix. A page can decode to far more bytes than it has; only one value is in memory at a time.
type prefixes struct {
	n      delta
	suffix lengths
	value  []byte
	exact  int // the length of each value; 0 if it varies
	budget *Budget
}

func newPrefixes(b []byte, most int, budget *Budget) (p prefixes, err error) {
	p.budget = budget
	if p.n, err = newDelta(b, most); err != nil {
		return p, err
	}
	if b, err = p.n.rest(); err != nil {
		return p, err
	}
	p.suffix, err = newLengths(b, most)
	return p, err
}

func (p *prefixes) next() ([]byte, error) {
	n, err := p.n.next()
	if err != nil {
		return nil, err
	}
	suffix, err := p.suffix.next()
	if err != nil {
		return nil, err
	}
	size := n + int64(len(suffix))
	if n < 0 || n > int64(len(p.value)) || size > maxValue || p.exact > 0 && size != int64(p.exact) {
		return nil, errEncoding
	}
	if size > int64(cap(p.value)) {
		old := p.value[:n]
		if p.value, err = p.budget.grow(p.value, int(min(2*size, maxValue))); err != nil {
			return nil, err
		}
		copy(p.value, old)
	}
	p.value = append(p.value[:n], suffix...)
	return p.value, nil
}
