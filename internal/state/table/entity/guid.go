package entity

// AppendGUID appends 16 bytes as 8-4-4-4-12 lower-case hexadecimal digits.
func AppendGUID(dst, g []byte) []byte {
	if len(g) != 16 {
		return dst
	}
	const hex = "0123456789abcdef"
	var b [36]byte
	b[8], b[13], b[18], b[23] = '-', '-', '-', '-'
	for n, i := range guidDigits {
		b[i], b[i+1] = hex[g[n]>>4], hex[g[n]&15]
	}
	return append(dst, b[:]...)
}

// guidDigits are the positions of each byte's two digits.
var guidDigits = [16]int{0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34}

// ParseGUID parses the form that AppendGUID writes, in either case.
func ParseGUID[S string | []byte](s S) (g [16]byte, ok bool) {
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return g, false
	}
	// Two digits each. A dash elsewhere is not a digit.
	for n, i := range guidDigits {
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
