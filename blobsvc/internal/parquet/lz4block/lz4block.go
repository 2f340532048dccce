// Package lz4block decompresses blocks of LZ4. The module of the format is 34 MB, for a build the largest of all but
// one. The tests, which compare with that module, are in the package parquettest.
package lz4block

import "encoding/binary"

// Unpack decompresses a block (https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md): sequences of literals and
// of copies of what precedes, the last one without a copy. It reports whether the block is valid and its content has
// exactly the length of dst.
func Unpack(dst, src []byte) bool {
	at := 0
	for len(src) > 0 {
		token := src[0]
		n, rest, ok := length(int(token>>4), src[1:])
		if !ok || n > len(rest) || n > len(dst)-at {
			return false
		}
		at += copy(dst[at:], rest[:n])
		if src = rest[n:]; len(src) == 0 && at == len(dst) {
			return true
		}
		if len(src) < 2 {
			return false
		}
		back := int(binary.LittleEndian.Uint16(src))
		n, src, ok = length(int(token&15), src[2:])
		if n += 4; !ok || back == 0 || back > at || n > len(dst)-at {
			return false
		}
		from, end := at-back, at+n
		for at < end { // A copy may overlap itself: what was copied is copied again.
			at += copy(dst[at:end], dst[from:at])
		}
	}
	return false
}

// length returns a length, which bytes follow if it begins with 15, and what is after it.
func length(n int, src []byte) (_ int, rest []byte, ok bool) {
	if n < 15 {
		return n, src, true
	}
	for i, b := range src {
		if n += int(b); b < 255 {
			return n, src[i+1:], true
		}
	}
	return 0, nil, false
}
