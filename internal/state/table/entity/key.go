package entity

import (
	"bytes"
	"encoding/binary"
	"unicode/utf8"
)

// The key of an entity in the store is
//
//	+----------------+--------------+------+--------+
//	| table id       | PartitionKey | 0x00 | RowKey |
//	| 8 bytes, big-  | encoded      |      | encoded|
//	| endian         |              |      |        |
//	+----------------+--------------+------+--------+
//
// Azure orders keys by UTF-16 code units. So does this form, compared as bytes: characters up to U+FFFF are encoded
// as UTF-8, which keeps their order; a character beyond, a pair of surrogates in UTF-16, is encoded as its two
// surrogates of three bytes each (the form known as CESU-8), which puts it before U+E000 where UTF-16 has it. Keys
// hold no characters below U+0020, so the separator is below all of them and a partition is contiguous.

// keySeparator separates PartitionKey and RowKey.
const keySeparator = 0x00

// TableIDLen is the size in bytes of the table's id, with which each key begins.
const TableIDLen = 8

// AppendTableID appends the beginning of the keys of a table.
func AppendTableID(dst []byte, table uint64) []byte { return binary.BigEndian.AppendUint64(dst, table) }

// AppendKey appends the key of an entity. The keys must have passed [CheckKey]; in particular they are valid UTF-8.
func AppendKey[S string | []byte](dst []byte, table uint64, partition, row S) []byte {
	dst = AppendTableID(dst, table)
	dst = AppendKeyPart(dst, partition)
	dst = append(dst, keySeparator)
	return AppendKeyPart(dst, row)
}

// AppendKeyPart appends UTF-8 text in the encoding of keys.
func AppendKeyPart[S string | []byte](dst []byte, s S) []byte {
	start := 0
	for i := 0; i < len(s); i++ {
		// Only characters of four bytes are encoded in another way; all others are copied in runs.
		if s[i] < 0xF0 {
			continue
		}
		dst = append(dst, s[start:i]...)
		c, size := utf8.DecodeRuneInString(string(s[i:min(i+utf8.UTFMax, len(s))]))
		if c >= 0x10000 {
			c -= 0x10000
			dst = appendSurrogate(dst, 0xD800+c>>10)
			dst = appendSurrogate(dst, 0xDC00+c&0x3FF)
		} else {
			dst = utf8.AppendRune(dst, utf8.RuneError)
		}
		i += size - 1
		start = i + 1
	}
	return append(dst, s[start:]...)
}

// appendSurrogate encodes one code unit in three bytes, as UTF-8 would if it allowed surrogates.
func appendSurrogate(dst []byte, unit rune) []byte {
	return append(dst, 0xE0|byte(unit>>12), 0x80|byte(unit>>6&0x3F), 0x80|byte(unit&0x3F))
}

// SplitKey splits a key. partition and row are still encoded and point into key. ok is false if key is not an entity's
// key.
func SplitKey(key []byte) (table uint64, partition, row []byte, ok bool) {
	if len(key) <= TableIDLen {
		return 0, nil, nil, false
	}
	table = binary.BigEndian.Uint64(key)
	partition, row, ok = bytes.Cut(key[TableIDLen:], []byte{keySeparator})
	return table, partition, row, ok
}

// DecodeKeyPart returns the UTF-8 text of an encoded part: the same slice if nothing is to decode.
func DecodeKeyPart(part []byte) []byte {
	i := surrogateIndex(part)
	if i < 0 {
		return part
	}
	out := append(make([]byte, 0, len(part)), part[:i]...)
	for i < len(part) {
		if hi, ok := surrogateAt(part, i); ok && hi < 0xDC00 {
			if lo, ok := surrogateAt(part, i+3); ok && lo >= 0xDC00 {
				out = utf8.AppendRune(out, 0x10000+(hi-0xD800)<<10+(lo-0xDC00))
				i += 6
				continue
			}
		}
		out = append(out, part[i])
		i++
	}
	return out
}

// surrogateIndex finds the first encoded surrogate, or returns -1. Only U+D000 to U+DFFF begin with 0xED.
func surrogateIndex(part []byte) int {
	for i := 0; i < len(part); i++ {
		n := bytes.IndexByte(part[i:], 0xED)
		if n < 0 {
			break
		}
		i += n
		if _, ok := surrogateAt(part, i); ok {
			return i
		}
	}
	return -1
}

func surrogateAt(part []byte, i int) (rune, bool) {
	if i+3 > len(part) || part[i] != 0xED || part[i+1] < 0xA0 || part[i+1] > 0xBF || part[i+2]&0xC0 != 0x80 {
		return 0, false
	}
	return rune(part[i]&0x0F)<<12 | rune(part[i+1]&0x3F)<<6 | rune(part[i+2]&0x3F), true
}
