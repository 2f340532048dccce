package blobsvc

import (
	"strings"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// Azure takes the words of enumerations in any case, as far as clients show: the legacy client for .NET sends Max,
// Increment, Update and Clear, the one for Python True, the one for Java COMMITTED, where the reference has lower case.

// word reads a header with a word of an enumeration, in any case. It returns the word as known has it, "" for an absent
// or empty header, and an error for other words.
func (c *call) word(header string, known ...string) (string, error) {
	s := c.Header(header)
	if s == "" {
		return "", nil
	}
	for _, k := range known {
		if strings.EqualFold(s, k) {
			return k, nil
		}
	}
	return "", wire.InvalidHeader(header, s)
}

// needWord is word for a header that must be there.
func (c *call) needWord(header string, known ...string) (string, error) {
	if c.Header(header) == "" {
		return "", wire.MissingHeader(header)
	}
	return c.word(header, known...)
}

// flag reads a header that is true or false, in any case. sent reports whether it is there and not empty.
func (c *call) flag(header string) (value, sent bool, err error) {
	s, err := c.word(header, "true", "false")
	return s == "true", s != "", err
}
