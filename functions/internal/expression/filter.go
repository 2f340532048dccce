package expression

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/internal/lazyregexp"
)

// Filter is the "filter" of a table input. Values come from requests and messages, and must not change what the filter
// asks for: a value is either the content of a literal in quotes, or one number or boolean. The rules are those
// of the class TableFilterFormatter of the Functions host.
// https://github.com/Azure/azure-webjobs-sdk/blob/f79ea0b/src/Microsoft.Azure.WebJobs.Extensions.Storage/Tables/TableFilterFormatter.cs
type Filter struct {
	Template
	// whole: the filter is one expression and nothing else. The app wants callers to write it.
	whole bool
	// quoted are the expressions, by name in lower case, of which every occurrence is a whole literal: '{name}'.
	quoted map[string]bool
}

// NewFilter makes a filter of a template.
func NewFilter(t Template) *Filter {
	f := &Filter{Template: t, whole: len(t.parts) == 1 && t.parts[0].name != "", quoted: map[string]bool{}}
	// An odd number of quotes before an expression means that it stands in a literal. Without counting them, ''{a}''
	// would look like a literal, and a like its content.
	quotes := 0
	for i, p := range t.parts {
		if p.name == "" {
			quotes += strings.Count(p.literal, "'")
			continue
		}
		inLiteral := quotes%2 == 1 && i > 0 && strings.HasSuffix(t.parts[i-1].literal, "'") &&
			i+1 < len(t.parts) && strings.HasPrefix(t.parts[i+1].literal, "'")
		name := strings.ToLower(p.name)
		if before, seen := f.quoted[name]; seen {
			inLiteral = inLiteral && before
		}
		f.quoted[name] = inLiteral
	}
	return f
}

// Resolve fills in the values of one invocation.
func (f *Filter) Resolve(d *Data) (string, error) {
	if f.whole {
		return f.Template.Resolve(d)
	}
	var b strings.Builder
	for _, p := range f.parts {
		if p.name == "" {
			b.WriteString(p.literal)
			continue
		}
		text, err := f.value(p, d)
		if err != nil {
			return "", fmt.Errorf("%q: {%s}: %w", f.Source, p.name, err)
		}
		b.WriteString(text)
	}
	return b.String(), nil
}

// value returns what an expression adds to the filter.
func (f *Filter) value(p templatePart, d *Data) (string, error) {
	value, err := p.find(d)
	if err != nil {
		return "", err
	}
	text := ""
	if at, ok := value.(time.Time); ok && p.format == "" {
		text = at.UTC().Format("2006-01-02T15:04:05.0000000Z") // The only form that OData knows.
	} else if text, err = p.text(value); err != nil {
		return "", err
	}
	switch {
	case f.quoted[strings.ToLower(p.name)]:
		return strings.ReplaceAll(text, "'", "''"), nil
	case strings.EqualFold(text, "true"), strings.EqualFold(text, "false"):
		return strings.ToLower(text), nil // .NET writes True, and OData knows true only.
	case filterNumber().MatchString(text):
		return strings.TrimSpace(text), nil
	}
	return "", errors.New("outside of quotes, and where only a part of a text in quotes is an expression, a value must " +
		"be a number, true or false; write '{" + p.name + "}' for a text")
}

// filterNumber is a number of OData, without its suffix.
var filterNumber = lazyregexp.New(`^\s*[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?\s*$`)

// OneCondition reports an error if a text, put in parentheses, would not be one condition: if it closes a parenthesis
// that it has not opened, or leaves one or a quote open.
func OneCondition(filter string) error {
	depth, quoted := 0, false
	for _, c := range []byte(filter) {
		switch {
		case c == '\'':
			quoted = !quoted // A doubled quote closes and opens.
		case quoted:
		case c == '(':
			depth++
		case c == ')':
			if depth--; depth < 0 {
				return errors.New("the filter closes a parenthesis that it has not opened")
			}
		}
	}
	if depth != 0 || quoted {
		return errors.New("the filter leaves a parenthesis or a quote open")
	}
	return nil
}
