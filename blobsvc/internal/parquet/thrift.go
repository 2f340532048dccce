package parquet

import (
	"encoding/binary"
	"errors"
	"io"
)

// Damage describes damage of a file.
var (
	errDamaged = errors.New("its description is damaged")
	errShort   = io.ErrUnexpectedEOF
	errDeep    = errors.New("its description is nested too deeply")
)

// The types of Thrift's compact protocol.
// https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md
const (
	thriftTrue   = 1
	thriftFalse  = 2
	thriftByte   = 3
	thriftI16    = 4
	thriftI32    = 5
	thriftI64    = 6
	thriftDouble = 7
	thriftBinary = 8
	thriftList   = 9
	thriftSet    = 10
	thriftMap    = 11
	thriftStruct = 12
)

// maxDepth is the maximum nesting of structures.
const maxDepth = 32

// thrift reads Thrift's compact protocol. It does not allocate: strings are slices of b. After the first error, which
// it keeps, all results are zero.
type thrift struct {
	b     []byte
	at    int
	depth int
	err   error
}

func (r *thrift) fail(err error) {
	if r.err == nil {
		r.err, r.at = err, len(r.b)
	}
}

func (r *thrift) byte() byte {
	if r.at >= len(r.b) {
		r.fail(errShort)
		return 0
	}
	r.at++
	return r.b[r.at-1]
}

func (r *thrift) uvarint() uint64 {
	n, size := binary.Uvarint(r.b[r.at:])
	switch {
	case size == 0:
		r.fail(errShort)
		return 0
	case size < 0:
		r.fail(errDamaged)
		return 0
	}
	r.at += size
	return n
}

func (r *thrift) int() int64 {
	u := r.uvarint()
	return int64(u>>1) ^ -int64(u&1)
}

// int32 reads a number that must fit into 32 bits.
func (r *thrift) int32() int32 {
	n := r.int()
	if int64(int32(n)) != n {
		r.fail(errDamaged)
		return 0
	}
	return int32(n)
}

func (r *thrift) bytes() []byte {
	n := r.uvarint()
	if n > uint64(len(r.b)-r.at) {
		r.fail(errShort)
		return nil
	}
	b := r.b[r.at : r.at+int(n)]
	r.at += int(n)
	return b
}

// list reads the header of a list of structures and returns their number, which is at most the number of bytes left.
func (r *thrift) list() int {
	n, kind := r.head()
	if n > 0 && kind != thriftStruct {
		r.fail(errDamaged)
		return 0
	}
	return n
}

func (r *thrift) head() (n int, kind byte) {
	h := r.byte()
	count := uint64(h >> 4)
	if count == 15 {
		count = r.uvarint()
	}
	if count > uint64(len(r.b)-r.at) {
		r.fail(errShort)
		return 0, 0
	}
	return int(count), h & 15
}

// fields calls fn for each field of a structure. fn reads the field, or reports that it is unknown.
func (r *thrift) fields(fn func(id int16, kind byte) (known bool)) {
	if r.depth++; r.depth > maxDepth {
		r.fail(errDeep)
	}
	for id := int16(0); r.err == nil; {
		h := r.byte()
		if h == 0 {
			break
		}
		if d := h >> 4; d != 0 {
			id += int16(d)
		} else {
			id = int16(r.int())
		}
		if r.err == nil && !fn(id, h&15) {
			r.skip(h & 15)
		}
	}
	r.depth--
}

// structure is fields for a field that must be a structure.
func (r *thrift) structure(kind byte, fn func(id int16, kind byte) bool) bool {
	if kind != thriftStruct {
		r.fail(errDamaged)
		return true
	}
	r.fields(fn)
	return true
}

// skip skips a field's value.
func (r *thrift) skip(kind byte) {
	switch kind {
	case thriftTrue, thriftFalse:
	case thriftByte:
		r.byte()
	case thriftI16, thriftI32, thriftI64:
		r.uvarint()
	case thriftDouble:
		if len(r.b)-r.at < 8 {
			r.fail(errShort)
			return
		}
		r.at += 8
	case thriftBinary:
		r.bytes()
	case thriftStruct:
		r.fields(func(int16, byte) bool { return false })
	case thriftList, thriftSet:
		n, kind := r.head()
		r.elements(n, kind)
	case thriftMap:
		n := r.uvarint()
		// An empty map has no byte for the kinds.
		if n == 0 {
			return
		}
		// Each entry takes at least a byte, so a larger number is not in the file. Without this check it would count to
		// 2^64.
		if n > uint64(len(r.b)-r.at) {
			r.fail(errShort)
			return
		}
		kinds := r.byte()
		for ; n > 0 && r.err == nil; n-- {
			r.elements(1, kinds>>4)
			r.elements(1, kinds&15)
		}
	default:
		r.fail(errDamaged)
	}
}

// elements skips n list elements. Booleans in lists take one byte, unlike booleans in fields.
func (r *thrift) elements(n int, kind byte) {
	if kind == thriftTrue || kind == thriftFalse {
		kind = thriftByte
	}
	if r.depth++; r.depth > maxDepth {
		r.fail(errDeep)
	}
	for ; n > 0 && r.err == nil; n-- {
		r.skip(kind)
	}
	r.depth--
}
