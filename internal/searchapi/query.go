package searchapi

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// The limits of a search.
const (
	MaxSize   = 1000 // hits in one page
	MaxQuery  = 4096 // bytes of the query
	MaxFacets = 20   // facets
	MaxTerms  = 1000 // terms or ranges of one facet
	MaxSort   = 8    // fields to sort by
)

// ErrQuery is wrapped by errors about a search that is not valid; its text says what is wrong.
var ErrQuery = errors.New("searchindex: the search is not valid")

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrQuery, fmt.Sprintf(format, args...))
}

// Query is a search.
type Query struct {
	// Text is a query in bleve's query string syntax: ada, "ada lovelace", +Name:ada -Town:london, Born:>"1815-01-01",
	// Score:<10, ad*, /ad.*/, ada~1. Empty finds all entities. See https://blevesearch.com/docs/Query-String-Query/.
	Text string
	// Size is the maximum number of hits, at most MaxSize. 0 means 10.
	Size int
	// After is Result.Next of the page before, for the same Text and Sort. The index may have changed in between: a page
	// then can skip or repeat hits.
	After string
	// Sort are the fields to sort by, which are not Text; "-" before one for the descending order. "_score" is the score.
	// Default: by descending score. Hits that are equal are in the order of their keys.
	Sort []string
	// Highlight adds Fragments to hits.
	Highlight bool
	// Facets count the values of fields among all hits.
	Facets []Facet
}

// Facet counts the hits by the values of a field, or by ranges of them.
type Facet struct {
	Field string
	// Size is the maximum number of terms of a Text or Keyword field, at most MaxTerms. 0 means 10.
	Size int
	// Ranges are ranges of a Number or Date field.
	Ranges []Range
}

// Range has the values from From to before To: numbers, or dates such as 2006-01-02 or 2006-01-02T15:04:05Z. Empty
// means no limit.
type Range struct{ From, To string }

// ParseFacet reads a facet: "Town", "Town:20" for at most 20 terms, or "Born:1800..1850,1850.." with ranges.
func ParseFacet(text string) (f Facet, err error) {
	name, rest, given := strings.Cut(text, ":")
	f.Field = name
	if !given {
		return f, nil
	}
	if n, err := strconv.Atoi(rest); err == nil {
		f.Size = n
		if n < 1 {
			return f, invalid("facet %q: the number of terms is not positive", text)
		}
		return f, nil
	}
	for part := range strings.SplitSeq(rest, ",") {
		from, to, ok := strings.Cut(part, "..")
		if !ok {
			return f, invalid("facet %q: %q is neither a number of terms nor a range FROM..TO", text, part)
		}
		f.Ranges = append(f.Ranges, Range{from, to})
	}
	return f, nil
}

func (r Range) String() string { return r.From + ".." + r.To }
