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
func (r *Request) Conditions() Conditions {
	return Conditions{IfMatch: r.Header("If-Match"), IfNoneMatch: r.Header("If-None-Match"),
		IfModifiedSince: r.httpDate("If-Modified-Since"), IfUnmodifiedSince: r.httpDate("If-Unmodified-Since")}
}

// SourceConditions parses the x-ms-source-if-* headers, which are conditions on the source of a copy.
func (r *Request) SourceConditions() (Conditions, error) {
	return r.conditions("X-Ms-Source-If-Match", "X-Ms-Source-If-None-Match",
		"X-Ms-Source-If-Modified-Since", "X-Ms-Source-If-Unmodified-Since")
}

// TagConditions parses the x-ms-blob-if-* headers, which are conditions on the blob whose tags are read or set.
func (r *Request) TagConditions() (Conditions, error) {
	return r.conditions("X-Ms-Blob-If-Match", "X-Ms-Blob-If-None-Match", "X-Ms-Blob-If-Modified-Since",
		"X-Ms-Blob-If-Unmodified-Since")
}

// TierConditions parses the x-ms-access-tier-if-* headers of Delete Blob. A zero time is an absent header.
func (r *Request) TierConditions() (modifiedSince, unmodifiedSince time.Time, err error) {
	if modifiedSince, err = r.dateHeader("X-Ms-Access-Tier-If-Modified-Since"); err == nil {
		unmodifiedSince, err = r.dateHeader("X-Ms-Access-Tier-If-Unmodified-Since")
	}
	return modifiedSince, unmodifiedSince, err
}

func (r *Request) conditions(match, noneMatch, modified, unmodified string) (c Conditions, err error) {
	c.IfMatch, c.IfNoneMatch = r.Header(match), r.Header(noneMatch)
	if c.IfModifiedSince, err = r.dateHeader(modified); err != nil {
		return c, err
	}
	c.IfUnmodifiedSince, err = r.dateHeader(unmodified)
	return c, err
}

// httpDate reads a header of HTTP with a date. A text that is not a date is ignored, as HTTP requires (recorded of
// "Fri, 11 Jun 2021 20:00:00 UTC"). https://www.rfc-editor.org/rfc/rfc9110#field.if-modified-since
func (r *Request) httpDate(name string) time.Time {
	s := r.Header(name)
	if s == "" { // Nearly every request: parsing nothing would make an error for each form of a date.
		return time.Time{}
	}
	t, err := ParseRFC1123(s)
	if err != nil {
		return time.Time{}
	}
	return t
}

func (r *Request) dateHeader(name string) (time.Time, error) {
	s := r.Header(name)
	if s == "" {
		return time.Time{}, nil
	}
	t, err := ParseRFC1123(s)
	if err != nil {
		return t, InvalidHeader(name, s)
	}
	return t, nil
}
