package wire

import "strings"

// MediaType splits a media type, such as one item of Accept, into its type, in lower case and without white space
// around it, and its parameters, each by [MediaParameter]. Package mime refuses what the service takes: parameters
// without a value, twice, or with characters that need quotes.
func MediaType(s string) (base, parameters string) {
	base, parameters, _ = strings.Cut(s, ";")
	return strings.ToLower(strings.TrimSpace(base)), parameters
}

// MediaParameter returns the first parameter of that name, in any case, without its quotes; "" if none is there. A
// value without quotes goes up to the next semicolon.
func MediaParameter(parameters, name string) string {
	for parameters != "" {
		parameters = strings.TrimLeft(parameters, " \t;")
		end := strings.IndexAny(parameters, "=;")
		if end < 0 {
			return ""
		}
		n, value := parameters[:end], ""
		if parameters[end] == ';' {
			parameters = parameters[end:]
			continue
		}
		value, parameters = mediaValue(strings.TrimLeft(parameters[end+1:], " \t"))
		if strings.EqualFold(strings.TrimSpace(n), name) {
			return value
		}
	}
	return ""
}

// mediaValue cuts the value of a parameter from what follows it.
func mediaValue(s string) (value, rest string) {
	if quoted, ok := strings.CutPrefix(s, `"`); ok {
		if value, rest, ok = strings.Cut(quoted, `"`); !ok {
			return "", ""
		}
		return value, rest
	}
	value, rest, _ = strings.Cut(s, ";")
	return strings.TrimRight(value, " \t"), rest
}

// Boundary returns the boundary of a multipart/mixed media type; ok is false for other types and without a boundary. A
// boundary without quotes may have characters that RFC 2045 allows in quotes only: the clients for Python and Rust
// write some with "=", "/" and ":".
func Boundary(contentType string) (boundary string, ok bool) {
	base, parameters := MediaType(contentType)
	if base != "multipart/mixed" {
		return "", false
	}
	boundary = MediaParameter(parameters, "boundary")
	return boundary, boundary != "" && len(boundary) <= maxBoundary
}

// maxBoundary is the length in bytes of the longest boundary that is read.
const maxBoundary = 200
