package bench

import (
	"slices"
	"strconv"
	"strings"
)

// The protocol versions that requests carry: both are understood by Azure, Azurite and Lazuli alike.
const (
	blobVersion  = "2021-12-02"
	tableVersion = "2019-02-02"
	dateHeader   = "x-ms-date"
)

// Field is one header.
type Field struct{ Name, Value string }

// Param is one query parameter, not escaped.
type Param struct {
	Name  string
	Value []byte
}

// Request is one HTTP request of a worker. A worker builds it once and changes only Path, parameter values and Body
// between operations; nothing is allocated per request.
type Request struct {
	Service Service
	Method  string
	// Path follows the endpoint's base path, escaped, with a leading slash.
	Path []byte
	// Query is sorted by name: the signature demands that order.
	Query []Param
	// Class names the kind of answer expected, unique within a workload: the floor answers by it.
	Class string
	// Want is the status that counts as success.
	Want int
	// Keep asks for the body of the answer to be kept; otherwise it is read and dropped.
	Keep bool
	// Body is sent as it is; nil for none.
	Body []byte

	contentType string
	ms          []Field // x-ms-* headers, sorted, with x-ms-date as an empty placeholder
	plain       []Field // unsigned headers
}

// NewRequest makes a request with the headers of its service. Headers named x-ms-* are signed, Content-Type too; the
// others travel unsigned.
func NewRequest(svc Service, method, class string, want int, headers ...Field) *Request {
	r := &Request{Service: svc, Method: method, Class: class, Want: want}
	version := blobVersion
	if svc == Table {
		version = tableVersion
		r.plain = append(r.plain, Field{"DataServiceVersion", "3.0;NetFx"},
			Field{"Accept", "application/json;odata=nometadata"})
	}
	r.ms = append(r.ms, Field{dateHeader, ""}, Field{"x-ms-version", version})
	for _, h := range headers {
		switch {
		case strings.HasPrefix(h.Name, "x-ms-"):
			r.ms = append(r.ms, h)
		case strings.EqualFold(h.Name, "Content-Type"):
			r.contentType = h.Value
		default:
			r.plain = append(r.plain, h)
		}
	}
	slices.SortFunc(r.ms, func(a, b Field) int { return strings.Compare(a.Name, b.Name) })
	return r
}

// encode appends the head of r to dst: request line, headers, the empty line. date is the value of x-ms-date; sample,
// when not empty, tells the floor which recorded answer to give.
func (r *Request) encode(dst []byte, e *Endpoint, s *Signer, date, sample string) []byte {
	dst = append(dst, r.Method...)
	dst = append(dst, ' ')
	dst = append(dst, e.Base...)
	dst = append(dst, r.Path...)
	for i, p := range r.Query {
		// "?" before the first parameter and "&" before the others.
		dst = append(dst, "?&"[min(i, 1)])
		dst = append(dst, p.Name...)
		dst = append(dst, '=')
		dst = appendEscaped(dst, p.Value)
	}
	dst = append(dst, " HTTP/1.1\r\nHost: "...)
	dst = append(dst, e.Host...)
	dst = append(dst, "\r\n"...)
	for _, h := range r.ms {
		// x-ms-date has a place in the sorted list; its value comes from a clock that formats it once a second.
		if h.Name == dateHeader {
			h.Value = date
		}
		dst = appendField(dst, h)
	}
	for _, h := range r.plain {
		dst = appendField(dst, h)
	}
	if r.contentType != "" {
		dst = appendField(dst, Field{"Content-Type", r.contentType})
	}
	if len(r.Body) > 0 || r.Method == "PUT" || r.Method == "POST" {
		// PUT and POST without a body need the header, or servers answer 411.
		dst = append(dst, "Content-Length: "...)
		dst = strconv.AppendInt(dst, int64(len(r.Body)), 10)
		dst = append(dst, "\r\n"...)
	}
	if sample != "" {
		dst = appendField(dst, Field{sampleHeader, sample})
	}
	dst = append(dst, "Authorization: "...)
	// Last, as it signs what was written before.
	dst = s.Sign(dst, r, e.Base, date)
	return append(dst, "\r\n\r\n"...)
}

func appendField(dst []byte, h Field) []byte {
	dst = append(dst, h.Name...)
	dst = append(dst, ": "...)
	dst = append(dst, h.Value...)
	return append(dst, "\r\n"...)
}

const upperHex = "0123456789ABCDEF"

// appendEscaped percent-encodes everything but RFC 3986's unreserved characters.
func appendEscaped(dst, s []byte) []byte {
	for _, c := range s {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '.', c == '_', c == '~':
			dst = append(dst, c)
		default:
			dst = append(dst, '%', upperHex[c>>4], upperHex[c&15])
		}
	}
	return dst
}

// sampleHeader of a request names the recorded answer that the floor gives to it.
const sampleHeader = "Bench-Sample"
