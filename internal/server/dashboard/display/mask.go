package display

import (
	"net/url"
	"strings"
)

// MaskURL replaces the values of signatures in an address.
func MaskURL(u string) string {
	path, query, found := strings.Cut(u, "?")
	if !found {
		return u
	}
	return path + "?" + Mask(query)
}

// Mask replaces the values of signatures in a query string.
func Mask(query string) string {
	parts := strings.Split(query, "&")
	for i, p := range parts {
		if isSignature(p) {
			name, _, _ := strings.Cut(p, "=")
			parts[i] = name + "=(not shown)"
		}
	}
	return strings.Join(parts, "&")
}

// isSignature reports whether a part of a query string is a signature, however its name is written.
func isSignature(part string) bool {
	name, _, _ := strings.Cut(part, "=")
	decoded, err := url.QueryUnescape(name)
	return err != nil || strings.EqualFold(decoded, "sig")
}
