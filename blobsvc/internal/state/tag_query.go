package state

import (
	"strings"
)

// TagQuery is a condition on tags: comparisons joined by AND, and in conditions also by OR, which binds less.
//
//	"project" = 'lazuli' AND "stage" >= '2'
//
// Values compare as strings. A key that a blob lacks makes the comparison false, except for <>.
// https://learn.microsoft.com/rest/api/storageservices/specifying-conditional-headers-for-blob-service-operations#specifying-conditional-operations-with-blob-index-tags
// https://learn.microsoft.com/rest/api/storageservices/find-blobs-by-tags
type TagQuery struct {
	// anyOf is a list of alternatives, each a list of comparisons that must all hold.
	anyOf [][]tagComparison
}

// Searches reports whether FindByTags can search by q. A comparison with ContainerTerm names one container, and is for searches of the
// whole account.
func (q *TagQuery) Searches(inContainer bool) bool {
	for _, x := range q.anyOf[0] {
		if x.key == ContainerTerm && (x.op != "=" || inContainer) {
			return false
		}
	}
	return true
}

// named returns those tags that a query without alternatives names.
func (q *TagQuery) named(tags []Tag) (list []Tag) {
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

type tagComparison struct{ key, op, value string }

func (q *TagQuery) Matches(tags []Tag) bool {
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

func (q tagComparison) match(tags []Tag) bool {
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
	return q.op == "<>"
}

// Limits of a query. Tags have the same: 10 a blob, 128 characters a key, 256 a value.
const (
	maxTagComparisons = 50
	maxTagKeys        = 10
	maxTagKey         = 128
	maxTagValue       = 256
)

// valid reports whether q compares with a tag that a blob could have, or, unless it is a condition, with its container.
func (q tagComparison) valid(condition bool) bool {
	if q.key == ContainerTerm {
		return !condition
	}
	return q.key != "" && len(q.key) <= maxTagKey && len(q.value) <= maxTagValue && !strings.ContainsFunc(q.key+q.value, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune(" +-./:=_", r)
	})
}

// ParseTagQuery reads a query. condition allows OR and <>, which Find Blobs by Tags does not know.
func ParseTagQuery(s string, condition bool) (*TagQuery, bool) {
	p := tagParser{rest: s}
	q := &TagQuery{}
	var all []tagComparison
	keys := map[string]bool{}
	for n := 1; ; n++ {
		cmp, ok := p.comparison(condition)
		if !ok || n > maxTagComparisons || !cmp.valid(condition) {
			return nil, false
		}
		if cmp.key != ContainerTerm {
			keys[cmp.key] = true
		}
		if len(keys) > maxTagKeys {
			return nil, false
		}
		all = append(all, cmp)
		word := p.word()
		switch {
		case word == "" && p.rest == "":
			q.anyOf = append(q.anyOf, all)
			return q, true
		case strings.EqualFold(word, "AND"):
		case strings.EqualFold(word, "OR") && condition:
			q.anyOf = append(q.anyOf, all)
			all = nil
		default:
			return nil, false
		}
	}
}

type tagParser struct{ rest string }

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

func (p *tagParser) quoted(q byte) (string, bool) {
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

func (p *tagParser) comparison(condition bool) (c tagComparison, ok bool) {
	if c.key, ok = p.quoted('"'); !ok {
		if c.key = p.word(); c.key == "" {
			return c, false
		}
	}
	p.skip()
	for _, op := range [...]string{"<>", ">=", "<=", "=", ">", "<"} {
		if strings.HasPrefix(p.rest, op) {
			c.op = op
			p.rest = p.rest[len(op):]
			break
		}
	}
	if c.op == "" || c.op == "<>" && !condition {
		return c, false
	}
	c.value, ok = p.quoted('\'')
	return c, ok
}
