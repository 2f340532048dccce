package arrow

import (
	"encoding/binary"
	"math"
	"math/big"
)

// Column gathers the values of one field. A method that does not fit its kind panics.
type Column struct {
	kind  Kind
	rows  int
	nulls int
	// valid has a bit for each row that is not null.
	valid []byte
	// data are the values: of fixed size, bits, or text.
	data []byte
	// offsets are the ends of strings in data, or of maps in keys and values, of which the first is 0.
	offsets []byte
	// keys and values are the entries of maps.
	keys, values *Column
}

func newColumn(k Kind) *Column {
	c := &Column{kind: k}
	if k == StringMap {
		c.keys, c.values = newColumn(String), newColumn(String)
	}
	c.reset()
	return c
}

func (c *Column) reset() {
	c.rows = 0
	c.nulls = 0
	c.valid = c.valid[:0]
	c.data = c.data[:0]
	c.offsets = c.offsets[:0]
	if c.kind == String || c.kind == StringMap {
		c.offsets = append(c.offsets, 0, 0, 0, 0)
	}
	if c.kind == StringMap {
		c.keys.reset()
		c.values.reset()
	}
}

func (c *Column) size() int {
	n := len(c.valid) + len(c.data) + len(c.offsets)
	if c.kind == StringMap {
		n += c.keys.size() + c.values.size()
	}
	return n
}

// mark notes whether the next row has a value.
func (c *Column) mark(valid bool) {
	c.valid = appendBit(c.valid, c.rows, valid)
	c.rows++
	if !valid {
		c.nulls++
	}
}

func appendBit(bits []byte, i int, set bool) []byte {
	if i%8 == 0 {
		bits = append(bits, 0)
	}
	if set {
		bits[i/8] |= 1 << (i % 8)
	}
	return bits
}

// null appends null.
func (c *Column) null() {
	switch c.kind {
	case String:
		c.end(len(c.data))
	case StringMap:
		c.end(c.keys.rows)
	case Bool:
		c.data = appendBit(c.data, c.rows, false)
	default:
		c.data = append(c.data, make([]byte, c.kind.width())...)
	}
	c.mark(false)
}

// end notes that the current string or map ends at n.
func (c *Column) end(n int) { c.offsets = binary.LittleEndian.AppendUint32(c.offsets, uint32(n)) }

// width is the size in bytes of a value of fixed size.
func (k Kind) width() int {
	switch k {
	case Int32:
		return 4
	case Decimal:
		return 16
	}
	return 8
}

// String appends a string, which must be UTF-8. All strings of a batch have less than 2 GiB.
func (c *Column) String(s string) {
	c.data = append(c.data, s...)
	c.end(len(c.data))
	c.mark(true)
}

// Bool appends a truth value.
func (c *Column) Bool(b bool) {
	c.data = appendBit(c.data, c.rows, b)
	c.mark(true)
}

// Int appends a value of a column of integers or times.
func (c *Column) Int(n int64) {
	if c.kind == Int32 {
		c.data = binary.LittleEndian.AppendUint32(c.data, uint32(n))
	} else {
		c.data = binary.LittleEndian.AppendUint64(c.data, uint64(n))
	}
	c.mark(true)
}

// Double appends a floating-point number.
func (c *Column) Double(f float64) { c.Int(int64(math.Float64bits(f))) }

// Decimal appends a decimal number as the integer that it is in units of the field's last digit. It reports whether
// that fits into 128 bits.
func (c *Column) Decimal(n *big.Int) bool {
	if n.BitLen() > 127 {
		return false
	}
	var b [16]byte
	unsigned := n
	if n.Sign() < 0 { // two's complement
		unsigned = new(big.Int).Add(n, new(big.Int).Lsh(big.NewInt(1), 128))
	}
	unsigned.FillBytes(b[:])
	for i := range 8 {
		b[i], b[15-i] = b[15-i], b[i]
	}
	c.data = append(c.data, b[:]...)
	c.mark(true)
	return true
}

// Map appends pairs of strings.
func (c *Column) Map(pairs []Pair) {
	for _, p := range pairs {
		c.keys.String(p.Key)
		c.values.String(p.Value)
	}
	c.end(c.keys.rows)
	c.mark(true)
}

// describe adds the column's node and buffers to a batch.
func (c *Column) describe(b *body) {
	b.node(c.rows, c.nulls)
	if c.nulls == 0 {
		b.buffer(nil) // all rows have a value
	} else {
		b.buffer(c.valid)
	}
	switch c.kind {
	case String:
		b.buffer(c.offsets)
		b.buffer(c.data)
	case StringMap:
		b.buffer(c.offsets)
		b.node(c.keys.rows, 0) // the entries, of which none is null
		b.buffer(nil)
		c.keys.describe(b)
		c.values.describe(b)
	default:
		b.buffer(c.data)
	}
}
