package tablesvc

import (
	"bytes"
	"net/http"
	"strings"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// The body of a transaction is multipart/mixed: it holds one change set, itself multipart/mixed with a request in each
// part, or one query as a part. SDKs differ in line ends, in blank lines around boundaries, and in whether addresses
// are absolute: all of these forms are accepted.
// https://learn.microsoft.com/rest/api/storageservices/performing-entity-group-transactions

// batch is a parsed body.
type batch struct {
	// changes is the change set, nil if there is a query.
	changes []part
	// query is the single query, nil if there is a change set.
	query *part
	// extra is the number of further change sets, which are refused.
	extra int
}

// part is one request inside a body.
type part struct {
	method, uri string
	header      []wire.Detail
	body        []byte
}

// get returns the first value of a header, by its name in any case.
func (p *part) get(name string) (value string, ok bool) {
	for _, h := range p.header {
		if strings.EqualFold(h.Name, name) {
			return h.Value, true
		}
	}
	return "", false
}

// sameHead reports whether p and a part before it have the same lines before their bodies. It may miss that they do:
// [partReader] keeps what it has parsed last.
func (p *part) sameHead(before *part) bool {
	return p.method == before.method && p.uri == before.uri && len(p.header) == len(before.header) &&
		(len(p.header) == 0 || &p.header[0] == &before.header[0])
}

// maxChanges bounds the changes in one transaction.
const maxChanges = 100

// maxParts bounds the parts that are parsed of a transaction with too many changes, which is refused.
const maxParts = maxChanges + 1

// readBatch parses a body. It fails with errInvalidInput.
func readBatch(contentType string, body []byte) (b batch, err error) {
	boundary, ok := wire.Boundary(contentType)
	if !ok {
		return b, errInvalidInput
	}
	parts, _ := splitMultipart(body, boundary) // the reference's own example ends without the last boundary
	if len(parts) == 0 {
		return b, errInvalidInput
	}
	var r partReader
	for _, raw := range parts {
		header, content := r.header(raw)
		p := part{header: header}
		kind, _ := p.get("Content-Type")
		if inner, ok := wire.Boundary(kind); ok {
			if b.changes != nil {
				b.extra++
				continue
			}
			if b.changes, err = readChanges(content, inner); err != nil {
				return b, err
			}
			continue
		}
		if b.query != nil {
			return b, errInvalidInput
		}
		q, ok := r.request(content)
		if !ok || q.method != http.MethodGet {
			return b, errInvalidInput
		}
		b.query = &q
	}
	if b.query != nil && b.changes != nil {
		return b, errInvalidInput
	}
	return b, nil
}

func readChanges(content []byte, boundary string) ([]part, error) {
	raws, whole := splitMultipart(content, boundary)
	if !whole { // the missing part might have had changes
		return nil, errInvalidInput
	}
	changes := make([]part, 0, len(raws))
	var r partReader
	for _, raw := range raws {
		_, request := cutHeader(raw)
		p, ok := r.request(request)
		if !ok || p.method == http.MethodGet {
			return nil, errInvalidInput
		}
		changes = append(changes, p)
	}
	return changes, nil
}

// splitMultipart returns the contents between boundary lines, without the line end before each boundary, at most
// maxParts of them. whole is false if the last boundary is missing.
func splitMultipart(body []byte, boundary string) (parts [][]byte, whole bool) {
	delimiter := []byte("--" + boundary)
	start := -1 // where the current part begins
	for at := 0; at < len(body); {
		i := bytes.Index(body[at:], delimiter)
		if i < 0 {
			break
		}
		i += at
		at = i + len(delimiter)
		if i > 0 && body[i-1] != '\n' {
			continue // not at the beginning of a line, whose end must then not be looked for: many may stand in one line
		}
		rest, last := bytes.CutPrefix(body[at:], []byte("--"))
		end := bytes.IndexByte(rest, '\n')
		line := rest
		if end >= 0 {
			line = rest[:end]
		}
		if len(bytes.TrimSpace(line)) > 0 {
			continue // a longer boundary
		}
		if start >= 0 {
			if parts = append(parts, trimLineEnd(body[start:i])); len(parts) == maxParts {
				return parts, true
			}
		}
		if last {
			return parts, true
		}
		start = len(body) - len(rest) + end + 1
		if end < 0 {
			start = len(body)
		}
		at = start
	}
	if start >= 0 && len(bytes.TrimSpace(body[start:])) > 0 {
		parts = append(parts, body[start:])
	}
	return parts, false
}

func trimLineEnd(b []byte) []byte {
	b = bytes.TrimSuffix(b, []byte("\n"))
	return bytes.TrimSuffix(b, []byte("\r"))
}

// cutHeader cuts the header lines off the front of b, and the blank line after them.
func cutHeader(b []byte) (lines, rest []byte) {
	for rest = b; len(rest) > 0; {
		at := len(b) - len(rest)
		var line []byte
		if line, rest = cutLine(rest); len(line) == 0 {
			return b[:at], rest
		}
	}
	return b, nil
}

// partReader parses the requests in a body. Those of a transaction mostly have the same lines, so it uses what it has
// parsed for the last one.
type partReader struct {
	line        string // the last request line
	method, uri string // its parts
	lines       string // the last header lines
	details     []wire.Detail
}

// header parses the header lines of a part.
func (r *partReader) header(b []byte) (header []wire.Detail, rest []byte) {
	lines, rest := cutHeader(b)
	if len(lines) == 0 {
		return nil, rest
	}
	if r.lines != string(lines) {
		r.lines = string(lines)
		r.details = make([]wire.Detail, 0, strings.Count(r.lines, "\n")+1)
		for line := range strings.Lines(r.lines) {
			if name, value, ok := strings.Cut(line, ":"); ok {
				r.details = append(r.details, wire.Detail{Name: strings.TrimSpace(name), Value: strings.TrimSpace(value)})
			}
		}
	}
	return r.details, rest
}

// cutLine cuts a line off the front of b and removes its end.
func cutLine(b []byte) (line, rest []byte) {
	line, rest, _ = bytes.Cut(b, []byte("\n"))
	return bytes.TrimSuffix(line, []byte("\r")), rest
}

// request parses a request: its line, its headers, and a body up to the end.
func (r *partReader) request(b []byte) (p part, ok bool) {
	for len(b) > 0 && (b[0] == '\r' || b[0] == '\n') { // skip blank lines before the request
		b = b[1:]
	}
	line, rest := cutLine(b)
	if r.line != string(line) {
		r.line = string(line)
		method, uri, ok := strings.Cut(strings.TrimSpace(r.line), " ")
		if !ok {
			return p, false
		}
		at := strings.LastIndex(uri, " HTTP/1.")
		if at < 0 {
			return p, false
		}
		r.method, r.uri = method, strings.TrimSpace(uri[:at])
	}
	p.method, p.uri = r.method, r.uri
	p.header, p.body = r.header(rest)
	return p, p.uri != "" && len(p.uri) <= wire.MaxURI
}

// target splits a part's address, absolute or relative, into the path below the account and the query.
func (p *part) target(c *call) (path, query string) {
	path, query, _ = strings.Cut(p.uri, "?")
	if _, rest, ok := strings.Cut(path, "://"); ok {
		if _, path, ok = strings.Cut(rest, "/"); !ok || path == c.Account && !c.ByHost {
			return "", query
		}
	}
	path = strings.TrimPrefix(path, "/")
	// An address in path style begins with the account. A table may have the account's name: then nothing follows it.
	if account, rest, ok := strings.Cut(path, "/"); ok && strings.TrimSuffix(account, "-secondary") == c.Account {
		path = rest
	}
	return "/" + path, query
}

// option returns the decoded query option of a name in lower case.
func option(query, name string) string {
	q, _ := wire.ParseQuery(query)
	return q.Get(name)
}
