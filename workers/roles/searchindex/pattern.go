package searchindex

import (
	"context"
	"regexp"
	"regexp/syntax"
	"strings"

	"github.com/blevesearch/bleve/v2/mapping"
	"github.com/blevesearch/bleve/v2/search"
	"github.com/blevesearch/bleve/v2/search/query"
	"github.com/blevesearch/bleve/v2/search/searcher"
	index "github.com/blevesearch/bleve_index_api"

	"github.com/lazuli-storage/lazuli/internal/budget"
)

// pattern finds the documents with a term that a regular expression matches as a whole. It replaces bleve's queries of
// patterns, which build an automaton of up to 10,000 states before they look at a term: that takes minutes for some
// expressions of 15 bytes, and cannot be stopped. A pattern tries each term of the field that begins with the
// expression's literal prefix, in time that is linear in the term.
type pattern struct {
	query.FieldableQuery
	boost  float64
	prefix string
	match  *regexp.Regexp
	// perByte is the work of matching a byte of a term, in units of package budget.
	perByte int
}

// maxInstructions bounds the compiled form of an expression.
const maxInstructions = 2000

// newPattern returns the query for an expression that takes the place of of.
func newPattern(of query.FieldableQuery, boost float64, expression string) (*pattern, error) {
	expression = strings.TrimPrefix(expression, "^")
	parsed, err := syntax.Parse(expression, syntax.Perl|syntax.DotNL)
	if err != nil {
		return nil, invalid("%v", err)
	}
	// The program is compiled for its size, which bounds the work, and its literal prefix, which bounds the terms.
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return nil, invalid("%v", err)
	}
	if len(program.Inst) > maxInstructions {
		return nil, invalid("the regular expression is too large")
	}
	// The whole term has to match, as in bleve, and a dot is any character.
	match, err := regexp.Compile(`\A(?s:` + expression + `)\z`)
	if err != nil {
		return nil, invalid("%v", err)
	}
	prefix, _ := program.Prefix()
	return &pattern{FieldableQuery: of, boost: boost, prefix: prefix, match: match, perByte: 2 + len(program.Inst)/8}, nil
}

// Searcher implements query.Query.
func (p *pattern) Searcher(ctx context.Context, i index.IndexReader, m mapping.IndexMapping,
	options search.SearcherOptions) (_ search.Searcher, err error) {
	field := p.Field()
	if field == "" {
		field = m.DefaultSearchField()
	}
	var terms index.FieldDict
	if p.prefix != "" {
		terms, err = i.FieldDictPrefix(field, []byte(p.prefix))
	} else {
		terms, err = i.FieldDict(field)
	}
	if err != nil {
		return nil, err
	}
	defer terms.Close()
	work := workOf(ctx)
	var found []string
	for t, err := terms.Next(); t != nil || err != nil; t, err = terms.Next() {
		if err == nil {
			// By the term and not by the match: terms that do not match cost the same.
			err = work.Spend(20 + len(t.Term)*p.perByte)
		}
		if err != nil {
			return nil, err
		}
		if p.match.MatchString(t.Term) {
			// One more than the limit is enough: the searcher below refuses that number with the error that callers know.
			if found = append(found, t.Term); len(found) > MaxClauses {
				break
			}
		}
	}
	return searcher.NewMultiTermSearcher(ctx, i, found, field, p.boost, options, true)
}

// withPatterns replaces the queries of regular expressions and wildcards in q.
func withPatterns(q query.Query) (_ query.Query, err error) {
	switch q := q.(type) {
	case *query.RegexpQuery:
		return newPattern(q, q.Boost(), q.Regexp)
	case *query.WildcardQuery:
		return newPattern(q, q.Boost(), wildcards(q.Wildcard))
	// Queries nest, and a pattern at any depth must not reach bleve.
	case *query.BooleanQuery:
		for _, sub := range []*query.Query{&q.Must, &q.Should, &q.MustNot, &q.Filter} {
			if *sub == nil {
				continue
			}
			if *sub, err = withPatterns(*sub); err != nil {
				return nil, err
			}
		}
	case *query.ConjunctionQuery:
		return q, allWithPatterns(q.Conjuncts)
	case *query.DisjunctionQuery:
		return q, allWithPatterns(q.Disjuncts)
	}
	return q, nil
}

func allWithPatterns(list []query.Query) (err error) {
	for i := range list {
		if list[i], err = withPatterns(list[i]); err != nil {
			return err
		}
	}
	return nil
}

// wildcards returns the regular expression of a pattern in which * is any text and ? one character.
func wildcards(text string) string {
	var b strings.Builder
	for _, c := range text {
		switch c {
		case '*':
			// A row of stars is one star. Each of them alone would multiply the size of the program.
			if !strings.HasSuffix(b.String(), ".*") {
				b.WriteString(".*")
			}
		case '?':
			b.WriteByte('.')
		default:
			b.WriteString(regexp.QuoteMeta(string(c)))
		}
	}
	return b.String()
}

type workKey struct{}

// withWork adds the work that a search may do. done is called at its end.
func withWork(ctx context.Context) (_ context.Context, done func()) {
	w := budget.New(ctx, budget.Request)
	w.Share(budget.Processors, "") // searches are one account
	return context.WithValue(ctx, workKey{}, w), w.Done
}

// workOf returns the work of a search, nil for one without a limit.
func workOf(ctx context.Context) *budget.Work {
	w, _ := ctx.Value(workKey{}).(*budget.Work)
	return w
}
