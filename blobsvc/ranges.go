package blobsvc

import (
	"strings"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/state"
)

// requestRange reads x-ms-range, or Range if that is absent. ok is false if the request names no range, or one that
// cannot be parsed: Azure answers such a read with the whole.
// https://learn.microsoft.com/rest/api/storageservices/specifying-the-range-header-for-blob-service-operations
func (c *call) requestRange() (r state.Range, ok bool) { return parseRange(c.rangeHeader()) }

// rangeHeader is x-ms-range, or Range if that is absent.
func (c *call) rangeHeader() string {
	if s := c.Header("X-Ms-Range"); s != "" {
		return s
	}
	return c.Header("Range")
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
