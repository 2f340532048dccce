package expression

import (
	"regexp"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/test/workbudget"
)

// The cases of the Functions host's own tests, and those in which a template only looks as if its quotes closed.
func TestFilterValues(t *testing.T) {
	t.Parallel()
	d := &Data{Function: "F", Began: time.Date(2018, 2, 16, 7, 59, 5, 0, time.UTC)}
	d.AddPayload(`{"age": 25, "name": "it's", "ok": true, "cut": "25 or true", "big": "-1.5e3", "who": {"name": "O'Hara"},
		"whole": "A eq 'b'", "word": "Infinity"}`)
	d.Set("at", time.Date(2009, 3, 18, 4, 25, 3, 0, time.UTC))
	d.Set("none", nil)
	for source, want := range map[string]string{
		"A gt 1":                    "A gt 1",
		"Age gt {age}":              "Age gt 25",
		"{Age} lt Age":              "25 lt Age",
		"B eq {ok}":                 "B eq true",
		"D lt {big}":                "D lt -1.5e3",
		"N eq '{name}'":             "N eq 'it''s'",
		"N eq '{who.name}'":         "N eq 'O''Hara'",
		"N eq '''{name}'''":         "N eq '''it''s'''",
		"N eq '{NAME}' or '{name}'": "N eq 'it''s' or 'it''s'",
		"T lt datetime'{at}'":       "T lt datetime'2009-03-18T04:25:03.0000000Z'",
		"T lt datetime'{DateTime}'": "T lt datetime'2018-02-16T07:59:05.0000000Z'",
		"T eq '{at:yyyy}'":          "T eq '2009'",
		"N eq 'of-{age}'":           "N eq 'of-25'",
		"N eq '{none}'":             "N eq ''",
		"{whole}":                   "A eq 'b'",
	} {
		if got, err := filterOf(t, source).Resolve(d); err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", source, got, err, want)
		}
	}
	for _, source := range []string{"Age gt {cut}", "{cut} lt Age", "N eq 'of-{name}'", "N eq ''{cut}''",
		"N eq '{cut}' or {cut}", "N eq '{cut}' or {CUT}", "N eq {none}", "N eq {word}", "N eq {missing}", "{cut} "} {
		if got, err := filterOf(t, source).Resolve(d); err == nil {
			t.Errorf("%s is %q", source, got)
		}
	}
}

func filterOf(t testing.TB, source string) *Filter {
	t.Helper()
	parsed, err := Parse(source)
	if err != nil {
		t.Fatal(err)
	}
	return NewFilter(parsed)
}

// filterTokens are the parts of a filter, without the values of constants.
var filterTokens = regexp.MustCompile(`(?s)'(?:[^']|'')*'|[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?|` +
	`\b(?:true|false)\b|[()]|[A-Za-z_][A-Za-z0-9_-]*|.`)

// structureOf writes a filter with each constant as #.
func structureOf(filter string) string {
	return filterTokens.ReplaceAllStringFunc(filter, func(token string) string {
		c := token[0]
		switch {
		case len(token) > 1 && c == '\'', c >= '0' && c <= '9', c == '.' && len(token) > 1,
			(c == '-' || c == '+') && len(token) > 1, token == "true", token == "false":
			return "#"
		}
		return token
	})
}

// FuzzFilterKeepsItsStructure: whatever a request or a message holds, the filter asks what the app wrote.
func FuzzFilterKeepsItsStructure(f *testing.F) {
	for _, value := range []string{"x') or (PartitionKey eq 'secret", "1) or (I eq 9", "it's", "''", "'", "1 or true",
		"-5", "1e9",
		"{a}", "true", "\x00\xff'", "\u2019 or \u2019", " 7 ", "1\n2", "NaN", "+.5E-3"} {
		f.Add(value)
	}
	templates := []string{"Name eq '{a}'", "I eq {a}", "(Name eq '{a}' or Name ne '{A}') and I lt {b}", "Name eq 'x{a}y'",
		"''{a}''", "'{a}' eq {a}", "T gt datetime'{a}'", "X eq '''{a}'''", "not ({a} eq I)"}
	// What an app's start does is not a part of the work that a value may cause.
	harmless := &Data{}
	harmless.Set("a", "1")
	harmless.Set("b", "1")
	filters := make([]*Filter, len(templates))
	wanted := make([]string, len(templates))
	for i, source := range templates {
		filters[i] = filterOf(f, source)
		plain, err := filters[i].Resolve(harmless)
		if err != nil {
			f.Fatal(err)
		}
		wanted[i] = structureOf(plain)
	}
	f.Fuzz(func(t *testing.T, value string) {
		d := &Data{}
		d.Set("a", value)
		d.Set("b", value)
		for i, source := range templates {
			// The budget is for one filter: the check of the result takes more than making it.
			spent := workbudget.Default.Start(t, len(value))
			got, err := filters[i].Resolve(d)
			spent()
			if err != nil {
				continue // Refused: the function is not called.
			}
			if structureOf(got) != wanted[i] {
				t.Errorf("%s with %q asks for %s", source, value, got)
			}
			if err := OneCondition(got); err != nil {
				t.Errorf("%s with %q is %s: %v", source, value, got, err)
			}
		}
	})
}
