package wire

import "encoding/binary"

// PlainPrefix returns the length of a prefix of text that has only printable ASCII characters other than &, < and >. It
// looks at eight bytes at a time and ends before the first eight that have another one, so the caller looks at what
// follows.
func PlainPrefix(text []byte) int {
	n := 0
	for n+8 <= len(text) && plainWord(binary.LittleEndian.Uint64(text[n:])) {
		n += 8
	}
	return n
}

// plainWord reports whether eight bytes are printable ASCII other than &, < and >. Each subtraction sets the highest
// bit of a byte if the byte is below the limit. Its borrow can spoil only bytes above one that is below, and the answer
// is no by then.
func plainWord(x uint64) bool {
	const ones, highest = 0x0101010101010101, 0x8080808080808080
	control := x - 0x20*ones
	and := x ^ '&'*ones
	angle := (x | 0x02*ones) ^ '>'*ones // < and > differ in this bit only
	return (x|(control&^x)|((and-ones)&^and)|((angle-ones)&^angle))&highest == 0
}
