package blobsvc

import (
	"strconv"
	"strings"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// byteRange is a range of a blob as it was asked for; end is inclusive, openEnd where the range goes to the end.
type byteRange struct{ start, end int64 }

const openEnd = int64(1<<63 - 1)

// requestRange reads x-ms-range, or Range if that is absent. ok is false if the request names no range.
// https://learn.microsoft.com/rest/api/storageservices/specifying-the-range-header-for-blob-service-operations
func (c *call) requestRange() (r byteRange, ok bool, err error) {
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
func parseRange(s string) (r byteRange, ok bool) {
	s, ok = strings.CutPrefix(s, "bytes=")
	if !ok {
		return r, false
	}
	first, last, ok := strings.Cut(s, "-")
	if !ok {
		return r, false
	}
	if r.start, ok = parseOffset(first); !ok {
		return r, false
	}
	if last == "" {
		r.end = openEnd
		return r, true
	}
	r.end, ok = parseOffset(last)
	return r, ok && r.end >= r.start
}

// parseOffset reads a decimal number without a sign.
func parseOffset(s string) (int64, bool) {
	if s == "" || s[0] < '0' || s[0] > '9' {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil
}

// within cuts r to a blob of length bytes and returns offset and length. It fails with errInvalidRange if r begins at
// or past the end.
func (r byteRange) within(length int64) (off, n int64, err error) {
	if r.start >= length {
		return 0, 0, errInvalidRange.WithHeader("Content-Range", "bytes */"+strconv.FormatInt(length, 10))
	}
	return r.start, min(r.end, length-1) - r.start + 1, nil
}
