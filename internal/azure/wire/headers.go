package wire

import (
	"net/http"
	"strings"
)

// Headers are the headers of a request by canonical name, with the forms that Azure gives their values. What depends on
// some headers alone takes these, and not the request.
type Headers http.Header

// Get returns the first value of a header, "" if it is absent.
func (h Headers) Get(name string) string { return header(http.Header(h), name) }

// Has reports whether a header is there, which may be empty.
func (h Headers) Has(name string) bool { return len(h[name]) > 0 }

// Azure takes the words of enumerations in any case, as far as clients show: the legacy client for .NET sends Max,
// Increment, Update and Clear, the one for Python True, the one for Java COMMITTED, where the reference has lower case.

// Word reads a header with a word of an enumeration, in any case. It returns the word as known has it, "" for an absent
// or empty header, and an error for other words.
func (h Headers) Word(name string, known ...string) (string, error) {
	s := h.Get(name)
	if s == "" {
		return "", nil
	}
	for _, k := range known {
		if strings.EqualFold(s, k) {
			return k, nil
		}
	}
	return "", InvalidHeader(name, s)
}

// NeedWord is Word for a header that must be there.
func (h Headers) NeedWord(name string, known ...string) (string, error) {
	if h.Get(name) == "" {
		return "", MissingHeader(name)
	}
	return h.Word(name, known...)
}

// Flag reads a header that is true or false, in any case. sent reports whether it is there and not empty.
func (h Headers) Flag(name string) (value, sent bool, err error) {
	s, err := h.Word(name, "true", "false")
	return s == "true", s != "", err
}
