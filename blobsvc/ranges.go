package blobsvc

import (
	"strings"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/state"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// requestRange reads x-ms-range, or Range if that is absent. ok is false if the request names no range.
// https://learn.microsoft.com/rest/api/storageservices/specifying-the-range-header-for-blob-service-operations
func (c *call) requestRange() (r state.Range, ok bool, err error) {
	name, s := "x-ms-range", c.Header("X-Ms-Range")
	if s == "" {
		name, s = "Range", c.Header("Range")
	}
	if s == "" {
		return r, false, nil
	}
	if r, ok = parseRange(s); !ok {
		return r, false, wire.InvalidHeader(name, s)
	}
	return r, true, nil
}

// parseRange reads bytes=start-end or bytes=start-. Azure knows neither suffix ranges nor several in one header.
func parseRange(s string) (r state.Range, ok bool) {
	s, ok = strings.CutPrefix(s, "bytes=")
	if !ok {
		return r, false
	}
	first, last, ok := strings.Cut(s, "-")
	if !ok {
		return r, false
	}
	if r.Start, ok = parseOffset(first); !ok {
		return r, false
	}
	if last == "" {
		r.End = state.OpenEnd
		return r, true
	}
	r.End, ok = parseOffset(last)
	return r, ok && r.End >= r.Start
}
