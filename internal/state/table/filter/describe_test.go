package filter

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestDescribe(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ filter, want string }{
		{``, `all`},
		{`Age eq 5`, `all`},
		{`PartitionKey eq 'p' and RowKey eq 'it''s'`, `PartitionKey eq 'p' and RowKey eq 'it''s'`},
		{`PartitionKey eq 'p' and RowKey eq ''`, `PartitionKey eq 'p' and RowKey eq ''`},
		{`PartitionKey eq 'p' and Age eq 5`, `PartitionKey eq 'p'`},
		{`PartitionKey eq 'p' and RowKey ge 'a' and RowKey lt 'b'`,
			`PartitionKey eq 'p' and RowKey ge 'a' and RowKey lt 'b'`},
		{`PartitionKey eq 'p' and RowKey gt 'a' and RowKey le 'b'`,
			`PartitionKey eq 'p' and RowKey gt 'a' and RowKey le 'b'`},
		{`PartitionKey eq 'p' and RowKey ne 'a'`,
			`PartitionKey eq 'p' and RowKey lt 'a'; PartitionKey eq 'p' and RowKey gt 'a'`},
		{`PartitionKey gt 'p' and PartitionKey le 'q'`, `PartitionKey gt 'p' and PartitionKey le 'q'`},
		{`PartitionKey ge 'p' and PartitionKey lt 'q'`, `PartitionKey ge 'p' and PartitionKey lt 'q'`},
		{`PartitionKey ge 'p' and RowKey eq 'r'`, `PartitionKey ge 'p'`},
		{`PartitionKey eq 'p' and RowKey ge 'r' or PartitionKey gt 'p' and PartitionKey lt 'q' or PartitionKey eq 'q' and RowKey lt 's'`,
			`from ('p','r') and to before ('q','s')`},
		{`PartitionKey eq 'p' and RowKey gt 'r' or PartitionKey gt 'p' and PartitionKey lt 'q' or PartitionKey eq 'q' and RowKey le 's'`,
			`after ('p','r') and to ('q','s')`},
		{`PartitionKey lt '' or PartitionKey eq '' and RowKey eq ''`, `to ('','')`},
		{"PartitionKey eq 'p' and RowKey eq 'a\x00'", "PartitionKey eq 'p' and RowKey eq 'a\x00'"},
		{"PartitionKey eq '\U0001f600' and RowKey ge '啊'", "PartitionKey eq '\U0001f600' and RowKey ge '啊'"},
	} {
		f, err := Parse(tc.filter)
		if err != nil {
			t.Fatal(err)
		}
		if got := describe(f.Plan(3)); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.filter, got, tc.want)
		}
	}
}

func describe(p Plan) string {
	var texts []string
	for _, r := range p.Ranges {
		texts = append(texts, r.String())
	}
	return strings.Join(texts, "; ")
}

// pairs finds what is no filter: a bound by both keys.
var pairs = regexp.MustCompile(`(from|after|to|before) \(`)

// TestDescribeIsAFilter: where the text is a filter, it stands for its range and no other.
func TestDescribeIsAFilter(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		source := condition(3).Draw(t, "filter")
		f, err := Parse(source)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range f.Plan(7).Ranges {
			text := r.String()
			if text == "all" || strings.ContainsAny(text, "\x00\x01\x1f\n") || pairs.MatchString(text) {
				continue
			}
			g, err := Parse(text)
			if err != nil {
				t.Fatalf("%s has the range %s: %v", source, text, err)
			}
			p := g.Plan(7)
			if len(p.Ranges) != 1 || !slices.Equal(p.Ranges[0].Start, r.Start) || !slices.Equal(p.Ranges[0].End, r.End) {
				t.Fatalf("%s: %s is %q to %q, not %q", source, text, r.Start, r.End, p.Ranges)
			}
		}
	})
}
