package searchapi

// Result is a page of the hits of a search.
type Result struct {
	// Total is the number of hits in all pages.
	Total uint64 `json:"total"`
	// Complete is false while the first reading of the table is not finished: entities may be missing.
	Complete bool  `json:"complete"`
	Hits     []Hit `json:"hits"`
	// Facets are the counts of Query.Facets by field.
	Facets map[string]FacetResult `json:"facets,omitempty"`
	// Next is the token of the next page, for Query.After; empty if it does not exist.
	Next string `json:"next,omitempty"`
}

// Hit is an entity that was found.
type Hit struct {
	PartitionKey string  `json:"partitionKey"`
	RowKey       string  `json:"rowKey"`
	Score        float64 `json:"score"`
	// Fields are the values of the entity's fields: strings, float64 and dates in the form of RFC 3339.
	Fields map[string]any `json:"fields"`
	// Fragments are the parts of Text fields that matched, as HTML, with the matches in <mark>.
	Fragments map[string][]string `json:"fragments,omitempty"`
}

// FacetResult counts hits by the values of a field.
type FacetResult struct {
	// Missing is the number of hits without the field. Other is the number of values beyond the terms
	// that are listed; 0 for ranges.
	Missing int           `json:"missing"`
	Other   int           `json:"other"`
	Values  []FacetOfHits `json:"values"`
}

// FacetOfHits is the number of hits with one term, or in one range.
type FacetOfHits struct {
	Value string `json:"value"`
	Count int    `json:"count"`
}

// MaxDifferences is the maximum number of differences that a report lists.
const MaxDifferences = 1000

// Report is the result of a comparison of the index with the table.
type Report struct {
	Table string `json:"table"`
	// Complete is false while the first reading of the table is not finished.
	Complete bool `json:"complete"`
	// Entities is the number of entities of the table, Documents that of the documents of the index.
	Entities  int `json:"entities"`
	Documents int `json:"documents"`
	// Different is the number of entities and documents that differ. Differences lists the first [MaxDifferences] of them.
	Different   int          `json:"different"`
	Differences []Difference `json:"differences"`
}

// Difference is an entity whose document in the index is not the one that it should have.
type Difference struct {
	PartitionKey string `json:"partitionKey"`
	RowKey       string `json:"rowKey"`
	// What is "missing", "different", or "extra" for a document without an entity.
	What string `json:"what"`
}
