package bboltpage

import (
	"bytes"
	"encoding/binary"
)

// Page is a page of a bbolt file, either with its overflow pages or without them:
//
//	 0   8  id: the position in the file, in pages
//	 8   2  kind
//	10   2  number n of elements
//	12   4  overflow: number of further pages that belong to it
//	16 16n  elements, in key order
//	        branch: 4 position of the key from the start of the element, 4 its length, 8 id of the child
//	        leaf:   4 flags, 4 position of the key, which the value follows, 4 length of the key, 4 of the value
//
// Integers are in the machine's byte order. Methods return ok = false if an offset lies outside of the page.
type Page []byte

const (
	headerSize  = 16
	elementSize = 16

	kindBranch   = 0x01
	kindLeaf     = 0x02
	kindMeta     = 0x04
	kindFreelist = 0x10

	flagBucket = 0x01 // of a leaf's element: its value is a bucket
)

func (p Page) u16(at int) uint16 { return binary.NativeEndian.Uint16(p[at:]) }
func (p Page) u32(at int) uint64 { return uint64(binary.NativeEndian.Uint32(p[at:])) }
func (p Page) u64(at int) uint64 { return binary.NativeEndian.Uint64(p[at:]) }

func (p Page) id() uint64   { return p.u64(0) }
func (p Page) kind() uint16 { return p.u16(8) }
func (p Page) leaf() bool   { return p.kind() == kindLeaf }
func (p Page) count() int   { return int(p.u16(10)) }

// is reports whether p has the page number id and is a branch or a leaf.
func (p Page) is(id uint64) bool {
	return p.id() == id && (p.kind() == kindBranch || p.kind() == kindLeaf)
}

// pages returns the number of pages that p consists of, with its overflow pages.
func (p Page) pages() int { return int(p.u32(12)) + 1 }

// span returns n bytes of p at a position relative to element i.
func (p Page) span(i int, position, n uint64) (b []byte, ok bool) {
	at := uint64(headerSize+i*elementSize) + position
	// No sum overflows: the addends are numbers of 32 bits.
	if at+n > uint64(len(p)) {
		return nil, false
	}
	return p[at : at+n : at+n], true
}

// element reports whether element i exists.
func (p Page) element(i int) bool { return i < p.count() && headerSize+(i+1)*elementSize <= len(p) }

// child returns the key of element i of a branch and the page that it points to.
func (p Page) child(i int) (key []byte, id uint64, ok bool) {
	if !p.element(i) {
		return nil, 0, false
	}
	at := headerSize + i*elementSize
	key, ok = p.span(i, p.u32(at), p.u32(at+4))
	return key, p.u64(at + 8), ok
}

// pair returns element i of a leaf. bucket is set for a nested bucket.
func (p Page) pair(i int) (key, value []byte, bucket, ok bool) {
	if !p.element(i) {
		return nil, nil, false, false
	}
	at := headerSize + i*elementSize
	position, k, v := p.u32(at+4), p.u32(at+8), p.u32(at+12)
	both, ok := p.span(i, position, k+v)
	flags := p.u32(at)
	if !ok || flags > flagBucket {
		return nil, nil, false, false
	}
	return both[:k:k], both[k:], flags == flagBucket, true
}

// key returns the key of element i.
func (p Page) key(i int) (key []byte, ok bool) {
	if p.leaf() {
		key, _, _, ok = p.pair(i)
	} else {
		key, _, ok = p.child(i)
	}
	return key, ok
}

// search returns the element of a branch whose subtree contains key, or the first element of a leaf at or after key.
func (p Page) search(key []byte) (i int, ok bool) {
	// Plain loops and no function that is called for each element: each read and each write of a key comes here, once for
	// each level of its tree. A damaged element ends the search, whose result would be worth nothing.
	low, high := 0, p.count()
	if p.leaf() {
		for low < high {
			middle := int(uint(low+high) / 2)
			k, _, _, ok := p.pair(middle)
			if !ok {
				return low, false
			}
			if bytes.Compare(k, key) >= 0 {
				high = middle
			} else {
				low = middle + 1
			}
		}
		return low, true
	}
	for low < high {
		middle := int(uint(low+high) / 2)
		k, _, ok := p.child(middle)
		if !ok {
			return 0, false
		}
		if bytes.Compare(k, key) > 0 {
			high = middle
		} else {
			low = middle + 1
		}
	}
	// The subtree of an element begins with its key. A key before the first one belongs to the first subtree.
	return max(low-1, 0), p.count() > 0
}

// check verifies the layout of a whole branch or leaf, and the order of its keys. It returns a description of the
// problem, or "". A pageSize of 0 stands for the page of an inline bucket, which has no space behind its elements.
func (p Page) check(pageSize int) string {
	n := p.count()
	end := headerSize + n*elementSize
	if end > len(p) {
		return "more elements than fit"
	}
	if n == 0 && !p.leaf() {
		return "a branch without elements"
	}
	leaf := p.leaf()
	var last []byte
	for i := range n {
		at := headerSize + i*elementSize
		var position, key, value int
		if leaf {
			if p.u32(at) > flagBucket {
				return "unknown flags of an element"
			}
			position, key, value = int(p.u32(at+4)), int(p.u32(at+8)), int(p.u32(at+12))
		} else {
			position, key = int(p.u32(at)), int(p.u32(at+4))
		}
		// bbolt packs keys and values without gaps and in order. So each position is known before it is read, and a
		// flipped bit in any position or length is found here, without a checksum.
		if at+position != end || key == 0 {
			return "an element is not where it should be"
		}
		if end += key + value; end > len(p) {
			return "an element reaches past the end"
		}
		k := p[at+position:][:key]
		// Binary search relies on the order: in a page without it, keys that exist are not found.
		if bytes.Compare(last, k) >= 0 {
			return "keys are not in order"
		}
		last = k
	}
	switch {
	case pageSize == 0 && end != len(p):
		return "an inline bucket of another length than its elements"
	case pageSize > 0 && end < (p.pages()-1)*pageSize:
		return "more overflow pages than needed"
	case n == 0 && len(p) >= headerSize+elementSize && p.u32(headerSize+4) != 0:
		return "an element that the header does not count" // bbolt fills the rest of a page with zeros
	}
	return ""
}
