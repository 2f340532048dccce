package searchindex

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/blevesearch/bleve/v2"
	"github.com/blevesearch/bleve/v2/search"
	"github.com/blevesearch/bleve/v2/search/query"
	"github.com/blevesearch/bleve/v2/search/searcher"

	"github.com/lazuli-storage/lazuli/internal/budget"
)

// The limits of a search besides those of package searchapi.
const (
	MaxClauses   = 1024           // terms that one part of a query matches, such as those of a prefix
	MaxDuration  = budget.Request // time that a search takes
	defaultSize  = 10
	defaultTerms = 10
)

func init() { searcher.DisjunctionMaxClauseCount = MaxClauses }

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrQuery, fmt.Sprintf(format, args...))
}

// request checks a query and translates it for bleve.
func (x *Index) request(q Query) (*bleve.SearchRequest, error) {
	switch {
	// Before the text is parsed: the limits bound what a search can cost.
	case len(q.Text) > MaxQuery:
		return nil, invalid("the query is longer than %d bytes", MaxQuery)
	case q.Size < 0 || q.Size > MaxSize:
		return nil, invalid("size is %d, not 1 to %d", q.Size, MaxSize)
	case len(q.Facets) > MaxFacets:
		return nil, invalid("more than %d facets", MaxFacets)
	case len(q.Sort) > MaxSort:
		return nil, invalid("more than %d fields to sort by", MaxSort)
	}
	if q.Size == 0 {
		q.Size = defaultSize
	}
	parsed, err := x.parse(q.Text)
	if err != nil {
		return nil, err
	}
	r := bleve.NewSearchRequestOptions(parsed, q.Size, 0, false)
	// All stored fields, so that a hit can be shown without reading the table.
	r.Fields = []string{"*"}
	if err := x.sort(r, q); err != nil {
		return nil, err
	}
	if q.Highlight {
		r.Highlight = bleve.NewHighlight()
		for _, f := range x.fields {
			if f.Type == Text {
				r.Highlight.AddField(f.Name)
			}
		}
	}
	for _, f := range q.Facets {
		if r.Facets[f.Field] != nil {
			return nil, invalid("two facets of %s", f.Field)
		}
		facet, err := x.facet(f)
		if err != nil {
			return nil, err
		}
		r.AddFacet(f.Field, facet)
	}
	return r, nil
}

// parse reads the text of a query, and refuses fields that the index does not have.
func (x *Index) parse(text string) (query.Query, error) {
	if strings.TrimSpace(text) == "" {
		return bleve.NewMatchAllQuery(), nil
	}
	q := bleve.NewQueryStringQuery(text)
	parsed, err := q.Parse()
	if err == nil {
		err = q.Validate()
	}
	if err != nil {
		return nil, invalid("%v", err)
	}
	// bleve finds nothing in a field that it does not know. A field that is misspelled is an error and not an empty
	// result.
	names, err := query.ExtractFields(parsed, newMapping(nil), nil)
	if err != nil {
		return nil, invalid("%v", err)
	}
	for name := range names {
		if name == "_all" || name == "_id" {
			continue
		}
		if _, err := x.field(name); err != nil {
			return nil, err
		}
	}
	return withPatterns(parsed)
}

func (x *Index) field(name string) (Field, error) {
	if i := slices.IndexFunc(x.fields, func(f Field) bool { return f.Name == name }); i >= 0 {
		return x.fields[i], nil
	}
	var names []string
	for _, f := range x.fields {
		names = append(names, f.Name)
	}
	return Field{}, invalid("the index has no field %q; its fields are %s", name, strings.Join(names, ", "))
}

func (x *Index) sort(r *bleve.SearchRequest, q Query) error {
	order := []string{"-_score"}
	if len(q.Sort) > 0 {
		order = slices.Clone(q.Sort)
	}
	for _, s := range order {
		if name := strings.TrimPrefix(s, "-"); name != "_score" {
			f, err := x.field(name)
			if err != nil {
				return err
			}
			// A text field is stored as its words, and bleve would sort by one of them.
			if f.Type == Text {
				return invalid("cannot sort by %s, which is a text field: index it as keyword", name)
			}
		}
	}
	// The ID makes the order total: without it, hits with equal values could be on two pages, or on none.
	r.SortBy(append(order, "_id"))
	if q.After == "" {
		return nil
	}
	after, err := parseToken(q.After, q)
	if err == nil && len(after) != len(r.Sort) {
		err = invalid("the token of the page is not one of this index")
	}
	r.SearchAfter = after
	return err
}

func (x *Index) facet(f Facet) (*bleve.FacetRequest, error) {
	field, err := x.field(f.Field)
	if err != nil {
		return nil, err
	}
	if f.Size < 0 || max(f.Size, len(f.Ranges)) > MaxTerms {
		return nil, invalid("facet of %s: want at most %d terms or ranges", f.Field, MaxTerms)
	}
	if f.Size == 0 {
		f.Size = max(defaultTerms, len(f.Ranges))
	}
	r := bleve.NewFacetRequest(f.Field, f.Size)
	// Numbers and dates are indexed in steps of precision, whose terms would be counted as values.
	ranged := field.Type == Number || field.Type == Date
	if ranged != (len(f.Ranges) > 0) {
		if ranged {
			return nil, invalid("a facet of %s, a %s, needs ranges FROM..TO", f.Field, field.Type)
		}
		return nil, invalid("a facet of %s, a %s, cannot have ranges", f.Field, field.Type)
	}
	for i, v := range f.Ranges {
		if slices.Contains(f.Ranges[:i], v) {
			return nil, invalid("facet of %s: the range %s is named twice", f.Field, v)
		}
		if err := addRange(r, field, v); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func addRange(r *bleve.FacetRequest, f Field, v Range) error {
	if v.From == "" && v.To == "" {
		return invalid("facet of %s: a range needs a limit", f.Name)
	}
	if f.Type == Number {
		from, err1 := limit(v.From, func(s string) (float64, error) { return strconv.ParseFloat(s, 64) })
		to, err2 := limit(v.To, func(s string) (float64, error) { return strconv.ParseFloat(s, 64) })
		if err := errors.Join(err1, err2); err != nil {
			return invalid("facet of %s: the range %s is not one of numbers", f.Name, v)
		}
		// ParseFloat accepts NaN, which no comparison orders.
		if from != nil && math.IsNaN(*from) || to != nil && math.IsNaN(*to) || from != nil && to != nil && *from >= *to {
			return emptyRange(f, v)
		}
		r.AddNumericRange(v.String(), from, to)
		return nil
	}
	from, err1 := limit(v.From, parseDate)
	to, err2 := limit(v.To, parseDate)
	if err := errors.Join(err1, err2); err != nil {
		return invalid("facet of %s: the range %s is not one of dates such as 2006-01-02", f.Name, v)
	}
	var start, end time.Time
	if from != nil {
		start = *from
	}
	if to != nil {
		end = *to
	}
	if from != nil && to != nil && !start.Before(end) {
		return emptyRange(f, v)
	}
	r.AddDateTimeRange(v.String(), start, end)
	return nil
}

func emptyRange(f Field, v Range) error {
	return invalid("facet of %s: the range %s has no values: its first limit is not below its second", f.Name, v)
}

// limit parses a limit of a range; nil if it is empty.
func limit[T any](s string, parse func(string) (T, error)) (*T, error) {
	if s == "" {
		return nil, nil
	}
	v, err := parse(s)
	return &v, err
}

// parseDate reads a date, at which the index can have values.
func parseDate(s string) (t time.Time, err error) {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05", time.DateOnly, "2006-01", "2006"} {
		if t, err = time.Parse(layout, s); err == nil {
			if t.Before(firstDate) || !t.Before(afterDate) {
				return t, errors.New("the date is not within 1678 to 2261")
			}
			return t, nil
		}
	}
	return t, err
}

// token is the position at which a page of results ends: the values by which its last hit is sorted, and a hash of the
// query.
type token struct {
	Query []byte
	After [][]byte
}

func hashOfQuery(q Query) []byte {
	sum := sha256.Sum256([]byte(strings.Join(append([]string{q.Text}, q.Sort...), "\x00")))
	return sum[:8]
}

func newToken(q Query, order search.SortOrder, last *search.DocumentMatch) (string, error) {
	t := token{Query: hashOfQuery(q)}
	for i, s := range order {
		value := last.Sort[i]
		// bleve has placeholders in the sort values of score and ID, and takes the values themselves in SearchAfter.
		if _, ok := s.(*search.SortScore); ok {
			value = strconv.FormatFloat(last.Score, 'g', -1, 64)
		}
		if _, ok := s.(*search.SortDocID); ok {
			value = last.ID
		}
		t.After = append(t.After, []byte(value))
	}
	text, err := json.Marshal(t)
	return base64.RawURLEncoding.EncodeToString(text), err
}

func parseToken(text string, q Query) (after []string, err error) {
	var t token
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		err = json.Unmarshal(raw, &t)
	}
	if err != nil || len(t.After) == 0 {
		return nil, invalid("the token of the page is damaged")
	}
	// The values are positions in the order of the query that they came from. In another one they would skip hits.
	if string(t.Query) != string(hashOfQuery(q)) {
		return nil, invalid("the token of the page belongs to another query")
	}
	for _, v := range t.After {
		after = append(after, string(v))
	}
	return after, nil
}
