package blob

import (
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
)

func TestTagQuery(t *testing.T) {
	t.Parallel()
	tags := []record.Tag{{Key: "project", Value: "lazuli"}, {Key: "stage", Value: "2"}}
	for query, want := range map[string]bool{
		`"project" = 'lazuli'`:                    true,
		`project='lazuli' AND "stage" >= '2'`:     true,
		`project='x' OR stage<'3'`:                true,
		`project='lazuli' AND stage>'2'`:          false,
		`"other" = ''`:                            false,
		`"other" <> 'x'`:                          false,
		`project='x' OR stage='2' AND other='1' `: false,
	} {
		q, err := ParseTagQuery(query, true)
		if err != nil {
			t.Errorf("%s: %v", query, err)
		} else if got := q.Matches(tags); got != want {
			t.Errorf("%s is %v, want %v", query, got, want)
		}
	}
	for _, query := range []string{"", "project", "project=", "project='x", "project='x' AND", "project='x' project='y'",
		"= 'x'", "a='x' XOR b='y'"} {
		if _, err := ParseTagQuery(query, true); err == nil {
			t.Errorf("%q is accepted", query)
		}
	}
}

// The texts are those that clients' tests and reports have.
func TestTagQueryErrors(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("k", 129)
	for query, want := range map[string]string{
		`a='x' OR b='y'`:             " at or near character position 7: unexpected 'OR'",
		`"a"='x'+AND+"b"='y'`:        " at or near character position 8: unexpected '+'",
		`a='x' and @container11='y'`: " at or near character position 11: unsupported parameter '@container11'",
		`'a'='x'`:                    " at or near character position 1: unexpected '''",
		`a-b='x'`:                    " at or near character position 2: unexpected '-'",
		`a <> 'x'`:                   " at or near character position 3: unexpected '<'",
		`a`:                          " at or near character position 2: expecting an operator",
		`a = x`:                      " at or near character position 5: expecting tag value",
		long + `='x'`:                " at or near character position 1: tag must be between 1 and 128 characters in length",
		`""='x'`:                     " at or near character position 1: tag must be between 1 and 128 characters in length",
		`a='` + long + long + `'`: " at or near character position 3: tag value must be between 0 and 256 characters " +
			"in length",
		`a='x @'`:  " at or near character position 3: '@' not permitted in tag name or value",
		`"a!"='x'`: " at or near character position 1: '!' not permitted in tag name or value",
		strings.Repeat("a='x' AND ", 50) + "a='x'": ": there can be at most 50 comparisons in a query",
	} {
		if _, err := ParseTagQuery(query, false); err == nil || err.Error() != "Error parsing query"+want {
			t.Errorf("%.40s: got %v, want %s", query, err, want)
		}
	}
}
