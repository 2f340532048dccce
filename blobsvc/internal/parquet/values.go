package parquet

import (
	"encoding/binary"
)

// Value is one value of a column.
type Value struct {
	Null bool
	// N has the bits of numbers and booleans. 32-bit integers are sign-extended; floats are in IEEE 754 format.
	N int64
	// B has the bytes of the other types. It is valid until the reader's next call.
	B []byte
}

// Page encodings.
const (
	plainEncoding   = 0
	plainDictionary = 2
	rleEncoding     = 3
	deltaPacked     = 5
	deltaLengths    = 6
	deltaPrefixes   = 7
	rleDictionary   = 8
	byteStreamSplit = 9
)

// decoder returns the values of a page that are not null.
type decoder interface {
	next() (Value, error)
}

// width returns the length of a value in bytes; 0 for booleans and types of varying length.
func (c *Column) width() int {
	switch c.Kind {
	case Int32, Float:
		return 4
	case Int64, Double:
		return 8
	case Int96:
		return 12
	case FixedLenByteArray:
		return c.Length
	}
	return 0
}

// fixed decodes a value of fixed width.
func (c *Column) fixed(b []byte) Value {
	switch c.Kind {
	case Int32, Float:
		return Value{N: int64(int32(binary.LittleEndian.Uint32(b)))}
	case Int64, Double:
		return Value{N: int64(binary.LittleEndian.Uint64(b))}
	}
	return Value{B: b}
}

// decoder returns a decoder of a page with at most most values.
func (r *Reader) decoder(encoding int32, b []byte, most int) (decoder, error) {
	c := r.of
	whole := c.Kind == Int32 || c.Kind == Int64
	switch {
	case encoding == plainEncoding:
		return &plain{c: c, b: b}, nil
	case (encoding == plainDictionary || encoding == rleDictionary) && r.dictionary.there:
		if len(b) == 0 { // all values are null
			b = []byte{0}
		}
		h, err := newHybrid(b[1:], int(b[0]))
		return &indexed{h: h, d: &r.dictionary}, err
	case encoding == rleEncoding && c.Kind == Boolean:
		if len(b) < 4 {
			return nil, errEncoding
		}
		h, err := newHybrid(b[4:], 1)
		return &booleans{h}, err
	case encoding == deltaPacked && whole:
		d, err := newDelta(b, most)
		return &integers{d: d, short: c.Kind == Int32}, err
	case encoding == deltaLengths && c.Kind == ByteArray:
		l, err := newLengths(b, most)
		return &texts[*lengths]{&l}, err
	case encoding == deltaPrefixes && (c.Kind == ByteArray || c.Kind == FixedLenByteArray):
		p, err := newPrefixes(b, most, r.budget)
		p.exact = c.width()
		return &texts[*prefixes]{&p}, err
	case encoding == byteStreamSplit && c.width() > 0 && c.Kind != Int96:
		s := &split{c: c, b: b, n: len(b) / c.width(), value: make([]byte, max(c.width(), 8))}
		return s, nil
	}
	return nil, errEncoding
}

// plain reads PLAIN: a sequence of values.
type plain struct {
	c   *Column
	b   []byte
	bit uint8 // number of bits read of the first byte, for booleans
}

func (p *plain) next() (Value, error) {
	switch n := p.c.width(); {
	case p.c.Kind == Boolean:
		if len(p.b) == 0 {
			return Value{}, errEncoding
		}
		v := Value{N: int64(p.b[0] >> p.bit & 1)}
		// Booleans are bits, the lowest first.
		if p.bit++; p.bit == 8 {
			p.b, p.bit = p.b[1:], 0
		}
		return v, nil
	case n > 0:
		if n > len(p.b) {
			return Value{}, errEncoding
		}
		// The third index keeps an append to the value from writing over the next one.
		v := p.c.fixed(p.b[:n:n])
		p.b = p.b[n:]
		return v, nil
	}
	b, ok := prefixed(p.b)
	if !ok {
		return Value{}, errEncoding
	}
	p.b = p.b[4+len(b):]
	return Value{B: b}, nil
}

// prefixed reads a length from b and returns as many bytes after it.
func prefixed(b []byte) ([]byte, bool) {
	if len(b) < 4 {
		return nil, false
	}
	n := binary.LittleEndian.Uint32(b)
	if uint64(n) > uint64(len(b)-4) {
		return nil, false
	}
	return b[4 : 4+n : 4+n], true
}

// dictionary has the values that the pages of a column chunk refer to by index.
type dictionary struct {
	there bool
	c     *Column
	b     []byte
	n     int
	at    []uint32 // start offsets of texts
}

// set reads n values. Texts are prefixed with their length.
func (d *dictionary) set(c *Column, b []byte, n int, budget *Budget) error {
	d.there = true
	d.c = c
	d.b = b
	d.n = n
	d.at = d.at[:0]
	if w := c.width(); w > 0 {
		// The number of values is of the header and the bytes are of the page: the quotient cannot overflow, the product
		// could.
		if n > len(b)/w {
			return errEncoding
		}
		return nil
	}
	if c.Kind == Boolean || n > len(b)/4 {
		return errEncoding
	}
	// The dictionary's table is reused for the next chunk, so only growth is taken from the budget.
	if cap(d.at) < n {
		if err := budget.take(4 * (n - cap(d.at))); err != nil {
			return err
		}
		d.at = make([]uint32, 0, n)
	}
	rest := b
	for range n {
		text, ok := prefixed(rest)
		if !ok {
			return errEncoding
		}
		d.at = append(d.at, uint32(len(b)-len(rest)))
		rest = rest[4+len(text):]
	}
	return nil
}

func (d *dictionary) value(i uint32) (Value, error) {
	if uint64(i) >= uint64(d.n) {
		return Value{}, errEncoding
	}
	if w := d.c.width(); w > 0 {
		at := int(i) * w
		return d.c.fixed(d.b[at : at+w : at+w]), nil
	}
	text, _ := prefixed(d.b[d.at[i]:])
	return Value{B: text}, nil
}

// indexed reads RLE_DICTIONARY.
type indexed struct {
	h hybrid
	d *dictionary
}

func (x *indexed) next() (Value, error) {
	i, err := x.h.next()
	if err != nil {
		return Value{}, err
	}
	return x.d.value(i)
}

// booleans reads RLE.
type booleans struct{ h hybrid }

func (x *booleans) next() (Value, error) {
	n, err := x.h.next()
	return Value{N: int64(n)}, err
}

// integers reads DELTA_BINARY_PACKED.
type integers struct {
	d     delta
	short bool
}

func (x *integers) next() (Value, error) {
	n, err := x.d.next()
	if x.short { // differences overflow, as in the writer
		n = int64(int32(n))
	}
	return Value{N: n}, err
}

// texts reads the encodings whose values are bytes.
type texts[T interface{ next() ([]byte, error) }] struct{ from T }

func (x *texts[T]) next() (Value, error) {
	b, err := x.from.next()
	return Value{B: b}, err
}

// split reads BYTE_STREAM_SPLIT: the first bytes of all values, then the second bytes, and so on.
type split struct {
	c     *Column
	b     []byte
	n, at int
	value []byte
}

func (x *split) next() (Value, error) {
	if x.at == x.n {
		return Value{}, errEncoding
	}
	w := x.c.width()
	for i := range w {
		x.value[i] = x.b[i*x.n+x.at]
	}
	x.at++
	return x.c.fixed(x.value[:w]), nil
}
