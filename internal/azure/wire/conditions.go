package wire

import (
	"time"
)

// Conditions are the four conditional headers of HTTP. Zero fields are absent headers. Services evaluate them.
// https://learn.microsoft.com/rest/api/storageservices/specifying-conditional-headers-for-blob-service-operations
type Conditions struct {
	IfMatch, IfNoneMatch               string
	IfModifiedSince, IfUnmodifiedSince time.Time
}

// Conditions reads If-Match, If-None-Match, If-Modified-Since and If-Unmodified-Since.
func (h Headers) Conditions() Conditions {
	return Conditions{IfMatch: h.Get("If-Match"), IfNoneMatch: h.Get("If-None-Match"),
		IfModifiedSince: h.httpDate("If-Modified-Since"), IfUnmodifiedSince: h.httpDate("If-Unmodified-Since")}
}

// SourceConditions parses the x-ms-source-if-* headers, which are conditions on the source of a copy.
func (h Headers) SourceConditions() (Conditions, error) {
	return h.conditions("X-Ms-Source-If-Match", "X-Ms-Source-If-None-Match",
		"X-Ms-Source-If-Modified-Since", "X-Ms-Source-If-Unmodified-Since")
}

// TagConditions parses the x-ms-blob-if-* headers, which are conditions on the blob whose tags are read or set.
func (h Headers) TagConditions() (Conditions, error) {
	return h.conditions("X-Ms-Blob-If-Match", "X-Ms-Blob-If-None-Match", "X-Ms-Blob-If-Modified-Since",
		"X-Ms-Blob-If-Unmodified-Since")
}

// TierConditions parses the x-ms-access-tier-if-* headers of Delete Blob. A zero time is an absent header.
func (h Headers) TierConditions() (modifiedSince, unmodifiedSince time.Time, err error) {
	if modifiedSince, err = h.dateHeader("X-Ms-Access-Tier-If-Modified-Since"); err == nil {
		unmodifiedSince, err = h.dateHeader("X-Ms-Access-Tier-If-Unmodified-Since")
	}
	return modifiedSince, unmodifiedSince, err
}

func (h Headers) conditions(match, noneMatch, modified, unmodified string) (c Conditions, err error) {
	c.IfMatch, c.IfNoneMatch = h.Get(match), h.Get(noneMatch)
	if c.IfModifiedSince, err = h.dateHeader(modified); err != nil {
		return c, err
	}
	c.IfUnmodifiedSince, err = h.dateHeader(unmodified)
	return c, err
}

// httpDate reads a header of HTTP with a date. A text that is not a date is ignored, as HTTP requires (recorded of
// "Fri, 11 Jun 2021 20:00:00 UTC"). https://www.rfc-editor.org/rfc/rfc9110#field.if-modified-since
func (h Headers) httpDate(name string) time.Time {
	s := h.Get(name)
	if s == "" { // Nearly every request: parsing nothing would make an error for each form of a date.
		return time.Time{}
	}
	t, err := ParseRFC1123(s)
	if err != nil {
		return time.Time{}
	}
	return t
}

func (h Headers) dateHeader(name string) (time.Time, error) {
	s := h.Get(name)
	if s == "" {
		return time.Time{}, nil
	}
	t, err := ParseRFC1123(s)
	if err != nil {
		return t, InvalidHeader(name, s)
	}
	return t, nil
}
