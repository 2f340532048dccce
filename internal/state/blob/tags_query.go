package blob

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
)

// ContainerTerm is the key by which a query of the whole account limits itself to a container.
const ContainerTerm = "@container"

// TagQuery is a condition on tags: comparisons joined by AND, and in conditions also by OR, which binds less.
//
//	"project" = 'lazuli' AND "stage" >= '2'
//
// Values compare as strings. A key that a blob lacks makes every comparison false.
//
// https://learn.microsoft.com/rest/api/storageservices/specifying-conditional-headers-for-blob-service-operations#specifying-conditional-operations-with-blob-index-tags
// https://learn.microsoft.com/rest/api/storageservices/find-blobs-by-tags
type TagQuery struct {
	// anyOf is a list of alternatives, each a list of comparisons that must all hold.
	anyOf [][]tagComparison
}

// CheckSearch returns the error for a search by q: a comparison with ContainerTerm names one container, and is for
// searches of the whole account.
func (q *TagQuery) CheckSearch(inContainer bool) error {
	for _, x := range q.anyOf[0] {
		switch {
		case x.key != ContainerTerm:
		case inContainer:
			return &TagQueryError{Reason: "Cannot have container in both uri and query"}
		case x.op != "=":
			return &TagQueryError{Reason: "unexpected '" + x.op + "' for " + ContainerTerm}
		}
	}
	return nil
}

// named returns those tags that a query without alternatives names.
func (q *TagQuery) named(tags []record.Tag) (list []record.Tag) {
	for _, t := range tags {
		for _, x := range q.anyOf[0] {
			if x.key == t.Key {
				list = append(list, t)
				break
			}
		}
	}
	return list
}

// comparisons returns the number of comparisons of a query.
func (q *TagQuery) comparisons() (n int) {
	for _, all := range q.anyOf {
		n += len(all)
	}
	return n
}

type tagComparison struct{ key, op, value string }

func (q *TagQuery) Matches(tags []record.Tag) bool {
	for _, all := range q.anyOf {
		ok := true
		for _, cmp := range all {
			ok = ok && cmp.match(tags)
		}
		if ok {
			return true
		}
	}
	return false
}

func (q tagComparison) match(tags []record.Tag) bool {
	for _, t := range tags {
		if t.Key != q.key {
			continue
		}
		switch q.op {
		case "=":
			return t.Value == q.value
		case "<>":
			return t.Value != q.value
		case ">":
			return t.Value > q.value
		case ">=":
			return t.Value >= q.value
		case "<":
			return t.Value < q.value
		case "<=":
			return t.Value <= q.value
		}
	}
	// as in SQL, nothing is known of the value of a tag that is not there; Azure documents none of it, and Azurite does
	// the same
	return false
}

// Limits of a query. Tags have the same: 10 a blob, 128 characters a key, 256 a value.
const (
	maxTagComparisons = 50
	maxTagKeys        = 10
	maxTagKey         = 128
	maxTagValue       = 256
)

// TagQueryError says why a query is refused. Its texts are those that clients' tests expect of the service.
type TagQueryError struct {
	// At is the character at which the parser stopped, counted from 1; 0 if the error has no place.
	At     int
	Reason string
}

func (e *TagQueryError) Error() string {
	if e.At == 0 {
		return "Error parsing query: " + e.Reason
	}
	return fmt.Sprintf("Error parsing query at or near character position %d: %s", e.At, e.Reason)
}

// Errors of queries without a place.
var (
	errTagQueryKeys = &TagQueryError{Reason: fmt.Sprintf("there can be at most %d unique tags in a query",
		maxTagKeys)}
	errTagQueryComparisons = &TagQueryError{Reason: fmt.Sprintf("there can be at most %d comparisons in a query",
		maxTagComparisons)}
)

// ParseTagQuery parses a query. condition allows OR and <>, which Find Blobs by Tags does not support. The error is a
// [*TagQueryError].
func ParseTagQuery(s string, condition bool) (*TagQuery, error) {
	p := tagParser{text: s, rest: s, condition: condition}
	q := &TagQuery{}
	var all []tagComparison
	keys := map[string]bool{}
	// Each round reads one comparison and the word behind it. all has the comparisons since the last OR, which are one
	// alternative of the query.
	for n := 1; ; n++ {
		if n > maxTagComparisons {
			return nil, errTagQueryComparisons
		}
		cmp, err := p.comparison()
		if err != nil {
			return nil, err
		}
		// The limit is that of a blob's tags, and the container is not a tag.
		if cmp.key != ContainerTerm {
			keys[cmp.key] = true
		}
		if len(keys) > maxTagKeys {
			return nil, errTagQueryKeys
		}
		all = append(all, cmp)
		p.skip()
		if p.rest == "" {
			q.anyOf = append(q.anyOf, all)
			return q, nil
		}
		at := p.at() // of the word, for the error: word moves on
		switch word := p.word(); {
		case strings.EqualFold(word, "AND"):
		case strings.EqualFold(word, "OR") && condition:
			q.anyOf = append(q.anyOf, all)
			all = nil
		case word != "":
			return nil, &TagQueryError{at, "unexpected '" + word + "'"}
		default:
			return nil, p.unexpected("AND")
		}
	}
}

// tagParser consumes a query from the left.
type tagParser struct {
	text, rest string
	condition  bool
}

func (p *tagParser) at() int { return len(p.text) - len(p.rest) + 1 }

// unexpected is the error for the next character, or for the end of the query, where something else is wanted.
func (p *tagParser) unexpected(want string) error {
	if p.rest == "" {
		return &TagQueryError{p.at(), "expecting " + want}
	}
	r, _ := utf8.DecodeRuneInString(p.rest)
	return &TagQueryError{p.at(), "unexpected '" + string(r) + "'"}
}

func (p *tagParser) skip() { p.rest = strings.TrimLeft(p.rest, " \t") }

// word consumes the letters, digits and other characters that are allowed in an unquoted key.
func (p *tagParser) word() string {
	p.skip()
	i := 0
	for i < len(p.rest) {
		c := p.rest[i]
		if c != '_' && c != '@' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			break
		}
		i++
	}
	word := p.rest[:i]
	p.rest = p.rest[i:]
	return word
}

// quoted consumes a text in quotes. ok is false without the opening or the closing one.
func (p *tagParser) quoted(q byte) (text string, ok bool) {
	p.skip()
	if p.rest == "" || p.rest[0] != q {
		return "", false
	}
	i := strings.IndexByte(p.rest[1:], q)
	if i < 0 {
		return "", false
	}
	s := p.rest[1 : 1+i]
	p.rest = p.rest[i+2:]
	return s, true
}

func (p *tagParser) comparison() (c tagComparison, err error) {
	if c.key, err = p.key(); err != nil {
		return c, err
	}
	p.skip()
	for _, op := range [...]string{"<>", ">=", "<=", "=", ">", "<"} {
		if strings.HasPrefix(p.rest, op) {
			c.op = op
			break
		}
	}
	if c.op == "" || c.op == "<>" && !p.condition {
		return c, p.unexpected("an operator")
	}
	p.rest = p.rest[len(c.op):]
	c.value, err = p.value()
	return c, err
}

// key consumes the key of a tag that a blob could have, or, unless the query is a condition, the term for containers.
func (p *tagParser) key() (string, error) {
	p.skip()
	at := p.at()
	key, ok := p.quoted('"')
	if !ok {
		if key = p.word(); key == "" {
			return "", p.unexpected("a tag name")
		}
	}
	switch {
	case key == ContainerTerm && !p.condition:
		return key, nil
	case strings.HasPrefix(key, "@"):
		return "", &TagQueryError{at, "unsupported parameter '" + key + "'"}
	case key == "" || len(key) > maxTagKey:
		return "", &TagQueryError{at, fmt.Sprintf("tag must be between 1 and %d characters in length", maxTagKey)}
	}
	return key, checkTagText(at, key)
}

// value consumes the value of a tag that a blob could have.
func (p *tagParser) value() (string, error) {
	p.skip()
	at := p.at()
	value, ok := p.quoted('\'')
	switch {
	case !ok:
		return "", &TagQueryError{at, "expecting tag value"}
	case len(value) > maxTagValue:
		return "", &TagQueryError{at, fmt.Sprintf("tag value must be between 0 and %d characters in length", maxTagValue)}
	}
	return value, checkTagText(at, value)
}

// checkTagText checks the characters of a key or value.
func checkTagText(at int, s string) error {
	for _, r := range s {
		if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune(" +-./:=_", r) {
			return &TagQueryError{at, "'" + string(r) + "' not permitted in tag name or value"}
		}
	}
	return nil
}
