package parquet

import (
	"encoding/binary"
	"errors"
	"math"
)

var errEncoding = errors.New("a page is not encoded as it says")

// packed reads numbers of a fixed bit width from b, beginning with the lowest bit of the first byte.
type packed struct {
	b  []byte
	at int // in bits
}

// next returns the next number, of at most 64 bits.
func (x *packed) next(width int) (uint64, bool) {
	at, shift := x.at>>3, uint(x.at&7)
	if x.at+width > 8*len(x.b) {
		return 0, false
	}
	x.at += width
	var n uint64
	if at+8 <= len(x.b) {
		n = binary.LittleEndian.Uint64(x.b[at:]) >> shift
		if int(shift)+width > 64 {
			n |= uint64(x.b[at+8]) << (64 - shift)
		}
	} else {
		for i, c := range x.b[at:] {
			n |= uint64(c) << (8 * i)
		}
		n >>= shift
	}
	if width < 64 {
		n &= 1<<width - 1
	}
	return n, true
}

// hybrid reads levels, dictionary indexes and booleans: runs of one number, and bit-packed numbers.
// https://github.com/apache/parquet-format/blob/master/Encodings.md#RLE
type hybrid struct {
	b      []byte
	width  int
	run    int // numbers left
	packed bool
	one    uint32 // the number of the run
	bits   packed
}

// newHybrid returns a decoder of numbers of at most 32 bits.
func newHybrid(b []byte, width int) (hybrid, error) {
	if width < 0 || width > 32 {
		return hybrid{}, errEncoding
	}
	return hybrid{b: b, width: width}, nil
}

func (h *hybrid) next() (uint32, error) {
	for h.run == 0 {
		if err := h.begin(); err != nil {
			return 0, err
		}
	}
	h.run--
	if !h.packed {
		return h.one, nil
	}
	n, ok := h.bits.next(h.width)
	if !ok {
		return 0, errEncoding
	}
	return uint32(n), nil
}

// begin reads the header of a run.
func (h *hybrid) begin() error {
	head, n := binary.Uvarint(h.b)
	if n <= 0 {
		return errEncoding
	}
	h.b = h.b[n:]
	count := int(min(head>>1, math.MaxInt32))
	if h.packed = head&1 == 1; h.packed { // in groups of eight
		size := min(count*h.width, len(h.b)) // some writers truncate the last one
		h.run, h.bits, h.b = count*8, packed{b: h.b[:size]}, h.b[size:]
		return nil
	}
	size := (h.width + 7) / 8
	if size > len(h.b) {
		return errEncoding
	}
	h.one = 0
	for i, c := range h.b[:size] {
		h.one |= uint32(c) << (8 * i)
	}
	h.run, h.b = count, h.b[size:]
	return nil
}
