package wire

import (
	"strings"
	"unicode/utf8"
)

// ErrRefusedPath: the path has a character that no path may have. The part before the services refuses it, so its
// answer has neither a code nor a version in the head.
// https://github.com/Azure/azure-sdk-for-python/issues/11577, https://github.com/Azure/azure-storage-node/issues/385
var ErrRefusedPath = &Error{Status: ErrInvalidURI.Status, Code: ErrInvalidURI.Code, Message: ErrInvalidURI.Message,
	Bare: true}

// ResolvePath returns a percent-encoded path as the service reads it: segments "." and ".." are resolved, also where
// their dots or the slashes around them are encoded. So "/c/./b", "/c/%2E/b" and "/c/.%2Fb" are all "/c/b"; ".." at the
// top stays there. A path without such segments is returned as it is. Signatures are of the path as it was sent.
// https://github.com/Azure/azure-sdk-for-rust/issues/5275
//
// It fails with [ErrRefusedPath] for control characters and those of private use, which names may not have.
// https://learn.microsoft.com/rest/api/storageservices/naming-and-referencing-containers--blobs--and-metadata#resource-names
func ResolvePath(path string) (string, error) {
	dots, err := scanPath(path)
	if err != nil || !dots {
		return path, err
	}
	var out []string
	segments := strings.Split(separators.Replace(path), "/")
	for i, segment := range segments[1:] { // the first is empty: a path begins with a slash
		last := i == len(segments)-2
		switch segment {
		case "..":
			if len(out) > 0 {
				out = out[:len(out)-1]
			}
		case ".":
		default:
			out = append(out, segment)
			continue
		}
		if last { // "/c/." is the folder "/c/"
			out = append(out, "")
		}
	}
	return "/" + strings.Join(out, "/"), nil
}

// separators decodes what decides where segments end and which of them are dots.
var separators = strings.NewReplacer("%2e", ".", "%2E", ".", "%2f", "/", "%2F", "/", "%5c", "/", "%5C", "/", `\`, "/")

// scanPath reports whether a path may have segments of dots, and fails with [ErrRefusedPath].
func scanPath(path string) (dots bool, err error) {
	separated, encoded := false, false
	for i := 0; i < len(path); i++ {
		c := path[i]
		// Decoded once, as routers do: a dot that is encoded twice is not a dot.
		if c == '%' && i+2 < len(path) {
			if n, ok := unhex(path[i+1], path[i+2]); ok {
				encoded = encoded || n >= utf8.RuneSelf
				c, i = n, i+2
			}
		}
		encoded = encoded || c >= utf8.RuneSelf
		switch {
		case c < ' ' || c == 0x7f:
			return false, ErrRefusedPath
		case c == '.' && separated:
			dots = true
		}
		// A backslash separates for clients of .NET, which send it as it is.
		separated = c == '/' || c == '\\'
	}
	if encoded && refusedRune(path) {
		return false, ErrRefusedPath
	}
	return dots, nil
}

// refusedRune reports whether a path has an encoded or plain control character or one of private use, outside ASCII.
func refusedRune(path string) bool {
	decoded := make([]byte, 0, len(path))
	for i := 0; i < len(path); i++ {
		c := path[i]
		if c == '%' && i+2 < len(path) {
			if n, ok := unhex(path[i+1], path[i+2]); ok {
				c, i = n, i+2
			}
		}
		decoded = append(decoded, c)
	}
	for _, r := range string(decoded) {
		if r >= 0x80 && r <= 0x9f || r >= 0xe000 && r <= 0xf8ff {
			return true
		}
	}
	return false
}

// unhex decodes two hexadecimal digits.
func unhex(high, low byte) (n byte, ok bool) {
	for _, c := range [...]byte{high, low} {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return 0, false
		}
		n = n<<4 | c
	}
	return n, true
}
