package wire

import "strings"

// Boundary returns the boundary of a multipart/mixed media type; ok is false for other types and without a boundary. A boundary without
// quotes goes up to the next semicolon, and may have characters that RFC 2045 allows in quotes only: the clients for Python and Rust write
// some with "=", "/" and ":", which the service accepts and package mime does not.
func Boundary(contentType string) (boundary string, ok bool) {
	base, rest, _ := strings.Cut(contentType, ";")
	if !strings.EqualFold(strings.TrimSpace(base), "multipart/mixed") {
		return "", false
	}
	for rest != "" {
		rest = strings.TrimLeft(rest, " \t;")
		name, value, found := strings.Cut(rest, "=")
		if !found {
			return "", false
		}
		value = strings.TrimLeft(value, " \t")
		if quoted, isQuoted := strings.CutPrefix(value, `"`); isQuoted {
			if value, rest, found = strings.Cut(quoted, `"`); !found {
				return "", false
			}
		} else {
			value, rest, _ = strings.Cut(value, ";")
			value = strings.TrimRight(value, " \t")
		}
		if strings.EqualFold(strings.TrimSpace(name), "boundary") {
			return value, value != "" && len(value) <= maxBoundary
		}
	}
	return "", false
}

// maxBoundary is the length in bytes of the longest boundary that is read.
const maxBoundary = 200
