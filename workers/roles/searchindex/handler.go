package searchindex

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// NewHandler serves searches in an index:
//
//	GET  /search          a Result. Parameters: q, size, after, sort (repeatable), highlight=true, facet (repeatable; see ParseFacet)
//	GET  /search/verify   a Report. It reads the whole table
//	POST /search/rebuild  makes the role read the whole table again
//
// Errors are JSON objects with the member "error": 400 for a search that is not valid. It has no authentication: serve
// it on a loopback address, or behind a guard.
func NewHandler(x *Index) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /search", func(w http.ResponseWriter, r *http.Request) {
		q, err := parseQuery(r.URL.Query())
		if err != nil {
			answer(w, nil, err)
			return
		}
		result, err := x.Search(r.Context(), q)
		answer(w, result, err)
	})
	mux.HandleFunc("GET /search/verify", func(w http.ResponseWriter, r *http.Request) {
		report, err := x.Verify(r.Context())
		answer(w, report, err)
	})
	mux.HandleFunc("POST /search/rebuild", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, struct{}{}, x.Rebuild())
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusNotFound, failure{"want GET /search, GET /search/verify or POST /search/rebuild"})
	})
	return mux
}

type failure struct {
	Error string `json:"error"`
}

func answer(w http.ResponseWriter, v any, err error) {
	switch {
	case err == nil:
		writeJSON(w, http.StatusOK, v)
	case errors.Is(err, ErrQuery):
		writeJSON(w, http.StatusBadRequest, failure{strings.TrimPrefix(err.Error(), ErrQuery.Error()+": ")})
	case errors.Is(err, ErrClosed):
		writeJSON(w, http.StatusServiceUnavailable, failure{err.Error()})
	default:
		writeJSON(w, http.StatusInternalServerError, failure{err.Error()})
	}
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // The client has gone.
}

// parameters are those of GET /search.
var parameters = []string{"q", "size", "after", "sort", "highlight", "facet"}

// parseQuery reads a search from the parameters of a request.
func parseQuery(values url.Values) (q Query, err error) {
	for name, list := range values {
		// A parameter that is misspelled would be ignored without a word, and the result be of another search.
		if !slices.Contains(parameters, name) {
			return q, invalid("unknown parameter %q; the parameters are %s", name, strings.Join(parameters, ", "))
		}
		if len(list) > 1 && name != "sort" && name != "facet" {
			return q, invalid("the parameter %s is given twice", name)
		}
	}
	q = Query{Text: values.Get("q"), After: values.Get("after"), Sort: values["sort"]}
	if s := values.Get("size"); s != "" {
		if q.Size, err = strconv.Atoi(s); err != nil || q.Size < 1 {
			return q, invalid("size is %q, not 1 to %d", s, MaxSize)
		}
	}
	if s := values.Get("highlight"); s != "" {
		if q.Highlight, err = strconv.ParseBool(s); err != nil {
			return q, invalid("highlight is %q, not true or false", s)
		}
	}
	if len(values["facet"]) > MaxFacets {
		return q, invalid("more than %d facets", MaxFacets)
	}
	for _, s := range values["facet"] {
		f, err := ParseFacet(s)
		if err != nil {
			return q, err
		}
		q.Facets = append(q.Facets, f)
	}
	return q, nil
}
