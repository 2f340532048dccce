package searchindex

import (
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/test/workbudget"
)

var fuzzedIndex = &Index{fields: []Field{{Name: "Name", Type: Text}, {Name: "Town", Type: Keyword},
	{Name: "Born", Type: Date}, {Name: "Score", Type: Number}}}

// queryBudget allows for bleve's parser, which allocates up to 5 KB for each byte of a query; MaxQuery bounds the
// bytes.
var queryBudget = workbudget.Budget{Time: time.Second, TimePerByte: 100 * time.Microsecond, Bytes: 4 << 20,
	BytesPerByte: 10_000}

// requestOf reads and translates a search.
func requestOf(t *testing.T, raw string) {
	t.Helper()
	values, err := url.ParseQuery(raw)
	if err != nil {
		return
	}
	q, err := parseQuery(values)
	if err == nil {
		_, err = fuzzedIndex.request(q)
	}
	if err != nil && !errors.Is(err, ErrQuery) {
		t.Errorf("%q: %v, want ErrQuery", raw, err)
	}
}

// FuzzQuery: any parameters of a search are translated or refused.
func FuzzQuery(f *testing.F) {
	f.Add(
		`q=%2BName:ada%20-Town:london~2%20/a.*b/%20Born:>"1815-01-01"&size=10&sort=-Town&sort=_score&facet=Town:20&facet=Born:1800..1850,1850..&highlight=true`)
	f.Add("q=ad*&after=eyJRIjoiIn0&size=1001")
	f.Fuzz(func(t *testing.T, raw string) {
		defer queryBudget.Start(t, len(raw))()
		requestOf(t, raw)
	})
}

// Searches that repeat a piece of their grammar take work that grows with their length.
func TestQueriesStayInTheirBudget(t *testing.T) {
	workbudget.Inputs(3*MaxQuery, "q=a",
		[]string{"%20a", "%20Name:a", "%20%2Ba", "*", "~", "(", "/", "%22", "%5C", ":", "%20a*"}, "", func(raw string) {
			for _, n := range []int{MaxQuery, len(raw)} {
				short := raw[:strings.LastIndexAny(raw[:min(n, len(raw))]+"%", "%")]
				queryBudget.Check(t, len(short), func() { requestOf(t, short) })
			}
		})
	workbudget.Inputs(64<<10, "facet=Born:1800..1850", []string{",1800..1850", ",..", ",1..2", "&facet=Born:1..2"}, "",
		func(raw string) {
			queryBudget.Check(t, len(raw), func() { requestOf(t, raw) })
		})
}
