package blob

import (
	"errors"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/test/workbudget"
)

func TestConditions(t *testing.T) {
	t.Parallel()
	modified := time.Date(2026, 1, 2, 3, 4, 5, 999, time.UTC)
	at, before, after := modified.Truncate(time.Second), modified.Add(-time.Minute), modified.Add(time.Minute)
	const etag = `"0x8D1"`
	for _, tc := range []struct {
		name        string
		c           Conditions
		read, write error
	}{
		{"none", Conditions{}, nil, nil},
		{"if-match", Conditions{IfMatch: etag}, nil, nil},
		{"if-match any", Conditions{IfMatch: "*"}, nil, nil},
		{"if-match without quotes", Conditions{IfMatch: "0x8D1"}, nil, nil},
		{"if-match list", Conditions{IfMatch: `"a", "0x8D1"`}, nil, nil},
		{"if-match other", Conditions{IfMatch: `"0x8D2"`}, ErrConditionNotMet, ErrConditionNotMet},
		{"if-none-match", Conditions{IfNoneMatch: etag}, ErrNotModified, ErrConditionNotMet},
		{"if-none-match any", Conditions{IfNoneMatch: "*"}, ErrNotModified, ErrConditionNotMet},
		{"if-none-match other", Conditions{IfNoneMatch: `"0x8D2"`}, nil, nil},
		{"if-modified-since before", Conditions{IfModifiedSince: before}, nil, nil},
		{"if-modified-since same second", Conditions{IfModifiedSince: at}, ErrNotModified, ErrConditionNotMet},
		{"if-modified-since after", Conditions{IfModifiedSince: after}, ErrNotModified, ErrConditionNotMet},
		{"if-unmodified-since before", Conditions{IfUnmodifiedSince: before}, ErrConditionNotMet, ErrConditionNotMet},
		{"if-unmodified-since same second", Conditions{IfUnmodifiedSince: at}, nil, nil},
		{"if-match decides over if-unmodified-since", Conditions{IfMatch: etag, IfUnmodifiedSince: before}, nil, nil},
		{"if-none-match decides over if-modified-since", Conditions{IfNoneMatch: `"x"`, IfModifiedSince: after}, nil, nil},
		{"both directions", Conditions{IfMatch: etag, IfModifiedSince: after}, ErrNotModified, ErrConditionNotMet},
	} {
		if err := tc.c.Check(etag, modified); !same(err, tc.read) {
			t.Errorf("%s, read: got %v, want %v", tc.name, err, tc.read)
		}
		if err := tc.c.check(etag, modified, ErrConditionNotMet); !same(err, tc.write) {
			t.Errorf("%s, write: got %v, want %v", tc.name, err, tc.write)
		}
	}
	if err := (&Conditions{IfMatch: "*"}).checkCreate(); !same(err, ErrConditionNotMet) {
		t.Errorf("if-match on what does not exist: %v", err)
	}
	if err := (&Conditions{IfNoneMatch: "*", IfModifiedSince: after,
		IfUnmodifiedSince: before}).checkCreate(); err != nil {
		t.Errorf("other conditions on what does not exist: %v", err)
	}
}

// same is errors.Is for which nil only equals nil.
func same(got, want error) bool { return (got == nil) == (want == nil) && errors.Is(got, want) }

// Lists of entity tags that repeat a piece of their grammar take work that grows with their length.
func TestMatchETagStaysInItsBudget(t *testing.T) {
	t.Parallel()
	const size = 64 << 10 // as long as all headers of a request may be
	for _, list := range []string{",", `"a",`, "*", ` "`} {
		workbudget.Inputs(size, "", []string{list}, "", func(text string) {
			workbudget.Default.Check(t, len(text), func() { matchETag(text, `"x"`) })
		})
	}
}
