package searchindex

import "github.com/lazuli-storage/lazuli/internal/searchapi"

// What searches and comparisons ask and answer. Package searchapi has them without the index.
type (
	Query       = searchapi.Query
	Facet       = searchapi.Facet
	Range       = searchapi.Range
	Result      = searchapi.Result
	Hit         = searchapi.Hit
	FacetResult = searchapi.FacetResult
	FacetOfHits = searchapi.FacetOfHits
	Report      = searchapi.Report
	Difference  = searchapi.Difference
	Message     = searchapi.Message
)

// The limits of searches and reports.
const (
	MaxSize        = searchapi.MaxSize
	MaxQuery       = searchapi.MaxQuery
	MaxFacets      = searchapi.MaxFacets
	MaxTerms       = searchapi.MaxTerms
	MaxSort        = searchapi.MaxSort
	MaxDifferences = searchapi.MaxDifferences
)

// ErrQuery is wrapped by errors about a search that is not valid; its text says what is wrong.
var ErrQuery = searchapi.ErrQuery

// ParseFacet reads a facet: "Town", "Town:20" for at most 20 terms, or "Born:1800..1850,1850.." with ranges.
func ParseFacet(text string) (Facet, error) { return searchapi.ParseFacet(text) }

// Points are the steps at which a demonstration kills the role.
func Points() []string { return searchapi.Points() }
