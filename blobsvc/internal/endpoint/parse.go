package endpoint

import (
	"strconv"
	"strings"

	"github.com/google/uuid"

	state "github.com/lazuli-storage/lazuli/internal/state/blob"
)

// ParseGUID returns the canonical form of a GUID: 32 digits, with hyphens or without, in braces or not. Package uuid
// alone accepts any two characters in place of the braces.
func ParseGUID(s string) (string, bool) {
	id, err := uuid.Parse(s)
	if err != nil || len(s) == 38 && (s[0] != '{' || s[37] != '}') {
		return "", false
	}
	return id.String(), true
}

// ParseOffset reads a decimal number without a sign.
func ParseOffset(s string) (int64, bool) {
	if s == "" || s[0] < '0' || s[0] > '9' {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil
}

// ParseRange reads bytes=start-end or bytes=start-. Azure knows neither suffix ranges nor several in one header.
func ParseRange(s string) (r state.Range, ok bool) {
	s, ok = strings.CutPrefix(s, "bytes=")
	if !ok {
		return r, false
	}
	first, last, ok := strings.Cut(s, "-")
	if !ok {
		return r, false
	}
	if r.Start, ok = ParseOffset(first); !ok {
		return r, false
	}
	if last == "" {
		r.End = state.OpenEnd
		return r, true
	}
	r.End, ok = ParseOffset(last)
	return r, ok && r.End >= r.Start
}
