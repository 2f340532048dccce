package searchindex_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lazuli-storage/lazuli/tables"
	"github.com/lazuli-storage/lazuli/workers/roles/searchindex"
)

// library returns an index of a few people.
func library(t *testing.T) *fixture {
	t.Helper()
	f := newFixture(t)
	ctx := t.Context()
	for _, p := range []struct {
		row, name, town string
		score           any
		born            int
	}{
		{"1", "Ada Lovelace", "London", 5.5, 1815},
		{"2", "Alan Turing", "London", int32(7), 1912},
		{"3", "Grace Hopper", "New York", int64(8), 1906},
		{"4", "Ada <King> & Sons", "Ockham", math.NaN(), 1815},
		{"5", "Edsger Dijkstra", "Rotterdam", 9.0, 1930},
	} {
		e := person(p.row, p.name, p.town, p.score)
		e.Properties["Born"] = time.Date(p.born, 6, 1, 0, 0, 0, 0, time.UTC)
		ok(t, f.source.Insert(ctx, e))
	}
	ok(t, f.index.Build(ctx))
	return f
}

func TestSearch(t *testing.T) {
	t.Parallel()
	f := library(t)
	for _, tc := range []struct {
		text string
		sort []string
		want []string
	}{
		{"", nil, []string{"1", "2", "3", "4", "5"}},
		{"ADA", nil, []string{"1", "4"}},
		{"turing hopper", nil, []string{"2", "3"}},
		{`"ada lovelace"`, nil, []string{"1"}},
		{`"lovelace ada"`, nil, nil},
		{"+ada -lovelace", nil, []string{"4"}},
		{"Town:London", nil, []string{"1", "2"}},
		{"Town:london", nil, nil}, // a keyword is the whole value
		{`Town:"New York"`, nil, []string{"3"}},
		{"London", nil, nil}, // only text fields are searched without a name
		{"Score:>=7", nil, []string{"2", "3", "5"}},
		{"+Score:>5 +Score:<8", nil, []string{"1", "2"}},
		{`Born:<"1900-01-01"`, nil, []string{"1", "4"}},
		{"edsgr~1 dijkstr*", nil, []string{"5"}},
		{"/gra.*/", nil, []string{"3"}},
		{"secret", nil, nil}, // not indexed
		{"Score:>=7", []string{"-Score"}, []string{"5", "3", "2"}},
		{"", []string{"Town", "-Score"}, []string{"2", "1", "3", "4", "5"}},
	} {
		r := f.find(t, searchindex.Query{Text: tc.text, Sort: tc.sort})
		got := rows(r)
		if tc.sort == nil {
			slices.Sort(got)
		}
		if !slices.Equal(got, tc.want) || int(r.Total) != len(tc.want) || !r.Complete || r.Next != "" {
			t.Errorf("%q sorted by %v: %v of %d, next %q; want %v", tc.text, tc.sort, got, r.Total, r.Next, tc.want)
		}
	}
}

// A hit has the fields of the entity, and the fragments that match, without markup of their own.
func TestHit(t *testing.T) {
	t.Parallel()
	f := library(t)
	r := f.find(t, searchindex.Query{Text: "king", Highlight: true})
	want := []searchindex.Hit{{PartitionKey: "people", RowKey: "4", Score: r.Hits[0].Score,
		Fields:    map[string]any{"Name": "Ada <King> & Sons", "Town": "Ockham", "Born": "1815-06-01T00:00:00Z"},
		Fragments: map[string][]string{"Name": {"Ada &lt;<mark>King</mark>&gt; &amp; Sons"}}}}
	if diff := cmp.Diff(want, r.Hits); diff != "" {
		t.Error(diff)
	}
	if r := f.find(t, searchindex.Query{Text: "Town:Ockham", Highlight: true}); r.Hits[0].Fragments != nil {
		t.Errorf("fragments without a match: %v", r.Hits[0].Fragments)
	}
}

func TestFacets(t *testing.T) {
	t.Parallel()
	f := library(t)
	r := f.find(t, searchindex.Query{Size: 1, Facets: []searchindex.Facet{
		{Field: "Town", Size: 2},
		{Field: "Score", Ranges: []searchindex.Range{{From: "", To: "7"}, {From: "7", To: "9"}}},
		{Field: "Born", Ranges: []searchindex.Range{{From: "1900", To: ""}, {From: "1800-01-01", To: "1900-01-01"}}},
	}})
	want := map[string]searchindex.FacetResult{
		"Town":  {Other: 2, Values: []searchindex.FacetOfHits{{Value: "London", Count: 2}, {Value: "New York", Count: 1}}},
		"Score": {Missing: 1, Values: []searchindex.FacetOfHits{{Value: "..7", Count: 1}, {Value: "7..9", Count: 2}}},
		"Born": {Values: []searchindex.FacetOfHits{{Value: "1900..", Count: 3},
			{Value: "1800-01-01..1900-01-01", Count: 2}}},
	}
	if diff := cmp.Diff(want, r.Facets); diff != "" {
		t.Error(diff)
	}
}

// The pages of a search have each hit once, whatever it is sorted by.
func TestPages(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var all []tables.Entity
	for n := range 57 {
		e := person(fmt.Sprintf("%03d", n), "Ada", "London", float64(n%5))
		if n%7 == 0 {
			delete(e.Properties, "Score")
		}
		all = append(all, *e)
	}
	ok(t, f.source.Bulk(t.Context(), tables.BulkInsert, all))
	ok(t, f.index.Build(t.Context()))
	for _, order := range [][]string{nil, {"Score"}, {"-Score"}, {"Born", "-Score"}, {"Town"}, {"Town", "_score"}} {
		for _, text := range []string{"ada", ""} {
			q := searchindex.Query{Text: text, Size: 10, Sort: order}
			var got []string
			for {
				r := f.find(t, q)
				got = append(got, rows(r)...)
				if q.After = r.Next; r.Next == "" {
					break
				}
			}
			if n := len(got); n != 57 {
				t.Errorf("sorted by %v, the pages of %q have %d hits", order, text, n)
			}
			slices.Sort(got)
			if n := len(slices.Compact(got)); n != 57 {
				t.Errorf("sorted by %v, the pages of %q have %d different hits", order, text, n)
			}
		}
	}
}

// A search that is not valid is refused with what is wrong.
func TestInvalidSearches(t *testing.T) {
	t.Parallel()
	f := library(t)
	next := f.find(t, searchindex.Query{Size: 1}).Next
	for name, tc := range map[string]struct {
		q    searchindex.Query
		says string
	}{
		"unknown field":     {searchindex.Query{Text: "Nmae:ada"}, `no field "Nmae"`},
		"unknown in part":   {searchindex.Query{Text: "+ada -Nmae:x"}, `no field "Nmae"`},
		"syntax":            {searchindex.Query{Text: `"ada`}, "parse"},
		"regular expr.":     {searchindex.Query{Text: "/a(/"}, "missing"},
		"fuzzy":             {searchindex.Query{Text: "ada~9"}, "fuzziness"},
		"long":              {searchindex.Query{Text: strings.Repeat("a ", 4000)}, "4096"},
		"size":              {searchindex.Query{Size: 1001}, "size"},
		"negative size":     {searchindex.Query{Size: -1}, "size"},
		"sort":              {searchindex.Query{Sort: []string{"-Nmae"}}, `no field "Nmae"`},
		"sort by words":     {searchindex.Query{Sort: []string{"Name"}}, "text field"},
		"damaged token":     {searchindex.Query{After: "x"}, "damaged"},
		"token of another":  {searchindex.Query{Text: "ada", After: next}, "another query"},
		"unknown facet":     {searchindex.Query{Facets: []searchindex.Facet{{Field: "Nmae"}}}, `no field "Nmae"`},
		"facet twice":       {searchindex.Query{Facets: []searchindex.Facet{{Field: "Town"}, {Field: "Town"}}}, "two facets"},
		"facet of a number": {searchindex.Query{Facets: []searchindex.Facet{{Field: "Score"}}}, "needs ranges"},
		"ranges of words": {searchindex.Query{Facets: []searchindex.Facet{{Field: "Town",
			Ranges: []searchindex.Range{{From: "a"}}}}}, "cannot have ranges"},
		"range": {searchindex.Query{Facets: []searchindex.Facet{{Field: "Score",
			Ranges: []searchindex.Range{{From: "x"}}}}}, "numbers"},
		"range of dates": {searchindex.Query{Facets: []searchindex.Facet{{Field: "Born",
			Ranges: []searchindex.Range{{From: "1500"}}}}}, "dates"},
		"range twice": {searchindex.Query{Facets: []searchindex.Facet{{Field: "Score",
			Ranges: []searchindex.Range{{From: "1"}, {From: "1"}}}}}, "twice"},
		"range reversed": {searchindex.Query{Facets: []searchindex.Facet{{Field: "Score",
			Ranges: []searchindex.Range{{From: "5", To: "1"}}}}}, "no values"},
		"range of nothing": {searchindex.Query{Facets: []searchindex.Facet{{Field: "Score",
			Ranges: []searchindex.Range{{From: "NaN"}}}}}, "no values"},
		"dates reversed": {searchindex.Query{Facets: []searchindex.Facet{{Field: "Born",
			Ranges: []searchindex.Range{{From: "1900", To: "1900-01"}}}}}, "no values"},
		"terms": {searchindex.Query{Facets: []searchindex.Facet{{Field: "Town", Size: 1001}}}, "1000"},
	} {
		_, err := f.index.Search(t.Context(), tc.q)
		if !errors.Is(err, searchindex.ErrQuery) || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v, want an error that says %q", name, err, tc.says)
		}
	}
}

// A prefix that matches too many words is refused, and does not take the memory for all of them.
func TestTooManyClauses(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var words strings.Builder
	for n := range searchindex.MaxClauses + 1 {
		fmt.Fprintf(&words, "w%d ", n)
	}
	ok(t, f.source.Insert(t.Context(), person("1", words.String(), "London", 1.0)))
	ok(t, f.index.Build(t.Context()))
	if _, err := f.index.Search(t.Context(), searchindex.Query{Text: "w*"}); !errors.Is(err, searchindex.ErrQuery) {
		t.Errorf("w*: %v", err)
	}
	if r := f.find(t, searchindex.Query{Text: "w12*"}); r.Total != 1 {
		t.Errorf("w12*: %d hits", r.Total)
	}
}

func TestHandler(t *testing.T) {
	t.Parallel()
	f := library(t)
	server := httptest.NewServer(searchindex.NewHandler(f.index))
	t.Cleanup(server.Close)
	ask := func(method, path string, into any) int {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, nil)
		ok(t, err)
		resp, err := http.DefaultClient.Do(req)
		ok(t, err)
		defer resp.Body.Close()
		if into != nil {
			ok(t, json.NewDecoder(resp.Body).Decode(into))
		}
		return resp.StatusCode
	}
	var page searchindex.Result
	path := "/search?" + url.Values{"q": {"ada turing"}, "size": {"2"}, "sort": {"-Born", "-Town"}, "highlight": {"true"},
		"facet": {"Town:5", "Score:0..6,6.."}}.Encode()
	if status := ask("GET", path, &page); status != 200 || !slices.Equal(rows(&page), []string{"2", "4"}) ||
		page.Total != 3 || page.Next == "" {
		t.Errorf("the first page: %d, %+v", status, page)
	}
	if got := page.Facets["Score"].Values; !slices.Equal(got,
		[]searchindex.FacetOfHits{{Value: "0..6", Count: 1}, {Value: "6..", Count: 1}}) {
		t.Errorf("facets: %+v", page.Facets)
	}
	if got := page.Hits[0].Fragments["Name"]; !slices.Equal(got, []string{"Alan <mark>Turing</mark>"}) {
		t.Errorf("fragments: %q", got)
	}
	after := page.Next
	page = searchindex.Result{}
	if status := ask("GET", path+"&after="+after, &page); status != 200 || !slices.Equal(rows(&page), []string{"1"}) ||
		page.Next != "" {
		t.Errorf("the last page: %d, %+v", status, page)
	}
	for _, bad := range []string{"?q=Nmae:x", "?size=0", "?size=many", "?highlight=perhaps", "?facet=Town:0",
		"?facet=Score:1-2", "?query=ada", "?q=a&q=b", "?after=%00"} {
		var failed struct{ Error string }
		if status := ask("GET", "/search"+bad, &failed); status != 400 || failed.Error == "" {
			t.Errorf("%s: %d, %q", bad, status, failed.Error)
		}
	}
	var report searchindex.Report
	if status := ask("GET", "/search/verify", &report); status != 200 || report.Different != 0 || report.Documents != 5 {
		t.Errorf("verify: %d, %+v", status, report)
	}
	if status := ask("GET", "/elsewhere", nil); status != 404 {
		t.Errorf("an unknown path: %d", status)
	}
	if status := ask("POST", "/search/rebuild", nil); status != 200 {
		t.Errorf("rebuild: %d", status)
	}
	ok(t, f.index.Close())
	if status := ask("GET", "/search", nil); status != 503 {
		t.Errorf("a closed index: %d", status)
	}
}
