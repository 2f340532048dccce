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

// parseQuery decodes a raw query string. ok is false for an invalid percent-encoding or too many parameters.
func parseQuery(raw string) (q Query, ok bool) {
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
		if strings.IndexByte(name, '%') >= 0 || strings.IndexByte(name, '+') >= 0 {
			var err error
			if name, err = url.QueryUnescape(name); err != nil {
				return nil, false
			}
		}
		if strings.IndexByte(value, '%') >= 0 || strings.IndexByte(value, '+') >= 0 {
			var err error
			if value, err = url.QueryUnescape(value); err != nil {
				return nil, false
			}
		}
		q = append(q, Param{Name: strings.ToLower(name), Value: value})
	}
	return q, true
}
