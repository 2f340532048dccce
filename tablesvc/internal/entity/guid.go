package entity

import "encoding/hex"

// AppendGUID appends 16 bytes as 8-4-4-4-12 lower-case hexadecimal digits.
func AppendGUID(dst, g []byte) []byte {
	if len(g) != 16 {
		return dst
	}
	dst = hex.AppendEncode(dst, g[0:4])
	dst = append(dst, '-')
	dst = hex.AppendEncode(dst, g[4:6])
	dst = append(dst, '-')
	dst = hex.AppendEncode(dst, g[6:8])
	dst = append(dst, '-')
	dst = hex.AppendEncode(dst, g[8:10])
	dst = append(dst, '-')
	return hex.AppendEncode(dst, g[10:16])
}

// ParseGUID parses the form that AppendGUID writes, in either case.
func ParseGUID[S string | []byte](s S) (g [16]byte, ok bool) {
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return g, false
	}
	// Two digits each. A dash elsewhere is not a digit.
	for n, i := range [16]int{0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34} {
		hi, a := nibble(s[i])
		lo, b := nibble(s[i+1])
		if !a || !b {
			return g, false
		}
		g[n] = hi<<4 | lo
	}
	return g, true
}

func nibble(c byte) (byte, bool) {
	switch {
	case c >= '0' && c <= '9':
		return c - '0', true
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10, true
	case c >= 'A' && c <= 'F':
		return c - 'A' + 10, true
	}
	return 0, false
}
