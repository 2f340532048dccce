package wire

import (
	"net/url"
	"strings"
)

// Param is one decoded query parameter. Its name is lower case: Azure compares parameter names without case.
type Param struct{ Name, Value string }

// Query is the decoded query string, in the order of the request.
type Query []Param

// Get returns the first value of the named parameter, "" when it is absent. name must be lower case.
func (q Query) Get(name string) string {
	for i := range q {
		if q[i].Name == name {
			return q[i].Value
		}
	}
	return ""
}

// Has reports whether the query has the named parameter, which may be empty. name must be lower case.
func (q Query) Has(name string) bool {
	for i := range q {
		if q[i].Name == name {
			return true
		}
	}
	return false
}

// maxParams bounds the parameters of one request: no operation has more than two dozen.
const maxParams = 100

// ParseQuery decodes a raw query string. ok is false for too many parameters.
func ParseQuery(raw string) (q Query, ok bool) {
	if raw == "" {
		return nil, true
	}
	n := strings.Count(raw, "&") + 1
	if n > maxParams {
		return nil, false
	}
	q = make(Query, 0, n)
	for raw != "" {
		var part string
		part, raw, _ = strings.Cut(raw, "&")
		if part == "" {
			continue
		}
		name, value, _ := strings.Cut(part, "=")
		q = append(q, Param{Name: strings.ToLower(unescapeQuery(name)), Value: unescapeQuery(value)})
	}
	return q, true
}

// unescapeQuery decodes the name or value of a query parameter. A percent sign that begins no encoding stands for
// itself, as for .NET, in which the service is written: clients send filters and prefixes with a bare "%".
func unescapeQuery(s string) string {
	if strings.IndexByte(s, '%') < 0 && strings.IndexByte(s, '+') < 0 {
		return s
	}
	if t, err := url.QueryUnescape(s); err == nil {
		return t
	}
	var b strings.Builder
	for s != "" {
		n := 1
		if s[0] == '%' {
			n = min(3, len(s))
		}
		if t, err := url.QueryUnescape(s[:n]); err == nil {
			b.WriteString(t)
		} else {
			n = 1
			b.WriteByte(s[0])
		}
		s = s[n:]
	}
	return b.String()
}
