package store

import (
	"bytes"
	"encoding/binary"
	"sort"
)

// page is a page of bbolt's file with the pages that it overflows to, or with the first of them only. bbolt has had this
// format (version 2) since its first release and checks the version when it opens a file:
//
//	 0   8  id: the place in the file, in pages
//	 8   2  kind
//	10   2  number n of elements
//	12   4  overflow: how many further pages belong to it
//	16 16n  elements, in key order
//	        branch: 4 position of the key from the start of the element, 4 its length, 8 id of the child
//	        leaf:   4 flags, 4 position of the key, which the value follows, 4 length of the key, 4 of the value
//
// Integers are in the machine's byte order. What is outside the bytes at hand is answered with ok = false: the caller
// then leaves it to bbolt.
type page []byte

const (
	pageHeader  = 16
	pageElement = 16

	branchPage = 1
	leafPage   = 2
)

func (p page) u32(at int) uint64 { return uint64(binary.NativeEndian.Uint32(p[at:])) }
func (p page) u64(at int) uint64 { return binary.NativeEndian.Uint64(p[at:]) }

// is says whether p is the page id, of one of the two kinds that hold keys.
func (p page) is(id uint64) bool {
	kind := binary.NativeEndian.Uint16(p[8:])
	return p.u64(0) == id && (kind == branchPage || kind == leafPage)
}

func (p page) leaf() bool { return binary.NativeEndian.Uint16(p[8:]) == leafPage }

func (p page) count() int { return int(binary.NativeEndian.Uint16(p[10:])) }

// pages is how many pages it takes with those that it overflows to.
func (p page) pages() int { return int(p.u32(12)) + 1 }

// span returns n bytes of p at a position relative to element i.
func (p page) span(i int, position, n uint64) (b []byte, ok bool) {
	at := uint64(pageHeader+i*pageElement) + position
	if at+n > uint64(len(p)) {
		return nil, false
	}
	return p[at : at+n : at+n], true
}

// element says whether the element i is there.
func (p page) element(i int) bool { return i < p.count() && pageHeader+(i+1)*pageElement <= len(p) }

// child returns the key and the page that element i of a branch leads to.
func (p page) child(i int) (key []byte, id uint64, ok bool) {
	if !p.element(i) {
		return nil, 0, false
	}
	at := pageHeader + i*pageElement
	key, ok = p.span(i, p.u32(at), p.u32(at+4))
	return key, p.u64(at + 8), ok
}

// pair returns element i of a leaf. A nested bucket is none of ours, and not ok.
func (p page) pair(i int) (key, value []byte, ok bool) {
	if !p.element(i) {
		return nil, nil, false
	}
	at := pageHeader + i*pageElement
	position, k, v := p.u32(at+4), p.u32(at+8), p.u32(at+12)
	both, ok := p.span(i, position, k+v)
	if !ok || p.u32(at) != 0 {
		return nil, nil, false
	}
	return both[:k:k], both[k:], true
}

// search returns the element of a branch under which key is, or the first element of a leaf at or after key.
func (p page) search(key []byte) (i int, ok bool) {
	ok = true
	at := func(i int) (k []byte) {
		var here bool
		if p.leaf() {
			k, _, here = p.pair(i)
		} else {
			k, _, here = p.child(i)
		}
		ok = ok && here
		return k
	}
	if p.leaf() {
		i = sort.Search(p.count(), func(i int) bool { return bytes.Compare(at(i), key) >= 0 })
		return i, ok
	}
	i = sort.Search(p.count(), func(i int) bool { return bytes.Compare(at(i), key) > 0 })
	return max(i-1, 0), ok && p.count() > 0
}
