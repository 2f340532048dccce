package endpoint

import (
	"encoding/base64"
	"strconv"
	"strings"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// markerVersion begins a marker. Markers are opaque to clients: a version, and the position in base64.
const markerVersion = "1!"

// EncodeMarker returns the marker of a position, "" for nil.
func EncodeMarker(at []byte) string {
	if at == nil {
		return ""
	}
	return markerVersion + base64.RawURLEncoding.EncodeToString(at)
}

// DecodeMarker returns the position of a marker, and whether it is one.
func DecodeMarker(s string) ([]byte, bool) {
	s, ok := strings.CutPrefix(s, markerVersion)
	if !ok || len(s) > 8<<10 {
		return nil, false
	}
	at, err := base64.RawURLEncoding.DecodeString(s)
	return at, err == nil
}

// Marker reads the query parameter with the position from which a listing continues; nil if it is absent.
func Marker(q wire.Query, name string) ([]byte, error) {
	s := q.Get(name)
	if s == "" {
		return nil, nil
	}
	at, ok := DecodeMarker(s)
	if !ok {
		return nil, InvalidQuery(name, s)
	}
	return at, nil
}

// maxListResults is the size of the largest page, and of a page when none was asked for.
const maxListResults = 5000

// MaxResults reads the maxresults parameter. Azure answers a number over 5,000 with a page of 5,000.
func MaxResults(q wire.Query) (int, error) {
	s := q.Get("maxresults")
	if s == "" {
		return maxListResults, nil
	}
	n, err := strconv.ParseInt(s, 10, 32)
	switch {
	case err != nil:
		return 0, InvalidQuery("maxresults", s)
	case n < 1:
		return 0, wire.OutOfRangeQuery("maxresults", s, "1", strconv.Itoa(maxListResults))
	}
	return int(min(n, maxListResults)), nil
}

// InvalidQuery is wire's error without a reason, which the Blob service does not give.
func InvalidQuery(name, value string) error {
	return wire.ErrInvalidQueryParameterValue.With("QueryParameterName", name).With("QueryParameterValue", value)
}
