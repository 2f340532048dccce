package wire

import (
	"strings"
	"time"
)

// Conditions are the four conditional headers of HTTP as Azure evaluates them. Zero fields are absent headers.
// https://learn.microsoft.com/rest/api/storageservices/specifying-conditional-headers-for-blob-service-operations
type Conditions struct {
	IfMatch, IfNoneMatch               string
	IfModifiedSince, IfUnmodifiedSince time.Time
}

// Conditions parses If-Match, If-None-Match, If-Modified-Since and If-Unmodified-Since.
func (r *Request) Conditions() (Conditions, error) {
	return r.conditions("If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since")
}

// SourceConditions parses the x-ms-source-if-* headers, which are conditions on the source of a copy.
func (r *Request) SourceConditions() (Conditions, error) {
	return r.conditions("X-Ms-Source-If-Match", "X-Ms-Source-If-None-Match",
		"X-Ms-Source-If-Modified-Since", "X-Ms-Source-If-Unmodified-Since")
}

func (r *Request) conditions(match, noneMatch, modified, unmodified string) (c Conditions, err error) {
	c.IfMatch, c.IfNoneMatch = r.Header(match), r.Header(noneMatch)
	if c.IfModifiedSince, err = r.dateHeader(modified); err != nil {
		return c, err
	}
	c.IfUnmodifiedSince, err = r.dateHeader(unmodified)
	return c, err
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

// Empty reports whether no condition was given.
func (c Conditions) Empty() bool {
	return c.IfMatch == "" && c.IfNoneMatch == "" && c.IfModifiedSince.IsZero() && c.IfUnmodifiedSince.IsZero()
}

// CheckRead evaluates c for a read of a resource that exists. It returns [ErrConditionNotMet] or [ErrNotModified].
// If an entity tag and a date of the same direction are both given, the tag decides.
func (c Conditions) CheckRead(etag string, modified time.Time) error {
	return c.check(etag, modified, ErrNotModified)
}

// CheckWrite evaluates c for a write to a resource that exists. It returns [ErrConditionNotMet].
func (c Conditions) CheckWrite(etag string, modified time.Time) error {
	return c.check(etag, modified, ErrConditionNotMet)
}

// CheckCreate evaluates c for a write to a resource that does not exist: only conditions that require it to exist can fail.
func (c Conditions) CheckCreate() error {
	if c.IfMatch != "" {
		return ErrConditionNotMet
	}
	return nil
}

func (c Conditions) check(etag string, modified time.Time, unchanged *Error) error {
	modified = modified.Truncate(time.Second) // the precision of the headers
	switch {
	case c.IfMatch != "":
		if !matchETag(c.IfMatch, etag) {
			return ErrConditionNotMet
		}
	case !c.IfUnmodifiedSince.IsZero():
		if modified.After(c.IfUnmodifiedSince) {
			return ErrConditionNotMet
		}
	}
	switch {
	case c.IfNoneMatch != "":
		if matchETag(c.IfNoneMatch, etag) {
			return unchanged
		}
	case !c.IfModifiedSince.IsZero():
		if !modified.After(c.IfModifiedSince) {
			return unchanged
		}
	}
	return nil
}

// matchETag reports whether the header's list has etag or "*". Quotes may be missing, as some clients send them.
func matchETag(list, etag string) bool {
	if list == etag {
		return true
	}
	etag = strings.Trim(etag, `"`)
	for list != "" {
		var item string
		item, list, _ = strings.Cut(list, ",")
		item = strings.TrimSpace(item)
		if item == "*" || strings.Trim(item, `"`) == etag {
			return true
		}
	}
	return false
}
