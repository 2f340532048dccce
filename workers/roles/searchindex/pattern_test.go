package searchindex_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/workers/roles/searchindex"
)

func TestPatterns(t *testing.T) {
	t.Parallel()
	f := library(t)
	for text, want := range map[string][]string{
		"/ad.+/":                  {"1", "4"},
		"/AD.+/":                  nil, // terms are in lower case
		"/(?i)AD.+/":              {"1", "4"},
		"/ad/":                    nil, // the whole term
		"/ada|turing/":            {"1", "2", "4"},
		`/\pL{3}/`:                {"1", "4"},
		`/(\pL)*a(\pL){12}/`:      nil, // took a minute and a half of processor time
		"a?a":                     {"1", "4"},
		"*r*ng":                   {"2"},
		"Town:Lon*":               {"1", "2"},
		"Town:*":                  {"1", "2", "3", "4", "5"},
		"+/a.*/ -/turing|hopper/": {"1", "4"},
	} {
		at := time.Now()
		r, err := f.index.Search(t.Context(), searchindex.Query{Text: text})
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		var got []string
		for _, h := range r.Hits {
			got = append(got, h.RowKey)
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s finds %v, want %v (%v)", text, got, want, time.Since(at))
		}
	}
	for _, text := range []string{"/(/", "/(a{1,1000}){1,1000}/", "/" + strings.Repeat("(a?){900}", 3) + "/"} {
		if _, err := f.index.Search(t.Context(), searchindex.Query{Text: text}); !errors.Is(err, searchindex.ErrQuery) {
			t.Errorf("%.30s: %v", text, err)
		}
	}
}

// A search ends with its client.
func TestPatternsEndWithTheirClient(t *testing.T) {
	t.Parallel()
	f := library(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.index.Search(ctx, searchindex.Query{Text: "/a.*b?c/"}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
