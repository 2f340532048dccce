package searchindex

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/blevesearch/bleve/v2"
	"github.com/blevesearch/bleve/v2/search"

	"github.com/lazuli-storage/lazuli/internal/budget"
)

// Search searches the index. It returns an error that wraps [ErrQuery] for a query that is not valid. It takes at most
// [MaxDuration].
func (x *Index) Search(ctx context.Context, q Query) (*Result, error) {
	request, err := x.request(q)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, MaxDuration, invalid("it takes longer than %v", MaxDuration))
	defer cancel()
	result := &Result{Hits: []Hit{}}
	err = x.use(func(g *generation, complete bool) error {
		if g == nil {
			return nil
		}
		result.Complete = complete
		found, err := g.search(ctx, request)
		if err != nil {
			return err
		}
		return fill(result, q, request, found)
	})
	if err != nil {
		return nil, err
	}
	return result, nil
}

// search contains panics of bleve, which damaged files can cause.
func (g *generation) search(ctx context.Context, r *bleve.SearchRequest) (found *bleve.SearchResult, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("searchindex: the search failed: %v\n%s", p, debug.Stack())
		}
	}()
	working, done := withWork(ctx)
	defer done()
	found, err = g.index.SearchInContext(working, r)
	switch {
	case err == nil:
		return found, nil
	// First, since a context that has ended makes bleve fail with errors of many kinds.
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.Is(err, budget.ErrExhausted):
		return nil, invalid("it takes longer than %v", MaxDuration)
	case refused(err):
		return nil, invalid("%v", err)
	}
	return nil, fmt.Errorf("searchindex: %w", err)
}

// refused recognises the errors of bleve about queries that are not valid or too expensive. They have no type.
func refused(err error) bool {
	for _, text := range []string{"TooManyClauses", "fuzziness exceeds", "error parsing regexp"} {
		if strings.Contains(err.Error(), text) {
			return true
		}
	}
	return false
}

func fill(r *Result, q Query, request *bleve.SearchRequest, found *bleve.SearchResult) error {
	r.Total = found.Total
	for _, h := range found.Hits {
		key := parseDocumentID(h.ID)
		hit := Hit{PartitionKey: key.PartitionKey, RowKey: key.RowKey, Score: h.Score, Fields: h.Fields}
		if hit.Fields == nil {
			hit.Fields = map[string]any{}
		}
		for name, fragments := range h.Fragments {
			addFragments(&hit, name, fragments)
		}
		r.Hits = append(r.Hits, hit)
	}
	// A full page that is the last one has no token: the client need not ask for an empty page.
	if n := len(found.Hits); n == request.Size && uint64(n) < found.Total {
		var err error
		if r.Next, err = newToken(q, request.Sort, found.Hits[n-1]); err != nil {
			return err
		}
	}
	return fillFacets(r, q, found.Facets)
}

// addFragments adds the fragments that have a match: bleve returns one of each field.
func addFragments(h *Hit, field string, fragments []string) {
	matching := slices.DeleteFunc(fragments, func(f string) bool { return !strings.Contains(f, "<mark>") })
	if len(matching) == 0 {
		return
	}
	if h.Fragments == nil {
		h.Fragments = map[string][]string{}
	}
	h.Fragments[field] = matching
}

func fillFacets(r *Result, q Query, found search.FacetResults) error {
	for _, f := range q.Facets {
		got := found[f.Field]
		if got == nil {
			return errors.New("searchindex: a facet is missing in the result")
		}
		facet := FacetResult{Missing: got.Missing, Other: got.Other, Values: []FacetOfHits{}}
		if got.Terms != nil {
			for _, t := range got.Terms.Terms() {
				facet.Values = append(facet.Values, FacetOfHits{Value: t.Term, Count: t.Count})
			}
		}
		// bleve leaves out ranges without hits, and has the others in the order of their counts.
		counts := map[string]int{}
		for _, n := range got.NumericRanges {
			counts[n.Name] = n.Count
		}
		for _, d := range got.DateRanges {
			counts[d.Name] = d.Count
		}
		for _, v := range f.Ranges { // in the order of the query
			facet.Values = append(facet.Values, FacetOfHits{Value: v.String(), Count: counts[v.String()]})
		}
		if r.Facets == nil {
			r.Facets = map[string]FacetResult{}
		}
		r.Facets[f.Field] = facet
	}
	return nil
}
