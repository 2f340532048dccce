// Package expression fills binding expressions in: {name}, {customer.city} or {rand-guid} in the name of a queue, the
// path of a blob or the filter of a table. The values come from clients, which send the messages and requests; a filter
// stays what the app wrote, whatever they are.
//
// Start with Parse, which reads a Template, and Template.Resolve, which fills in the Data of one invocation; Filter has
// the rules for filters.
package expression

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/lazuli-storage/lazuli/functions/internal/jsonfile"
	"github.com/lazuli-storage/lazuli/functions/internal/jsonvalue"
)

// Data is what the binding expressions of one invocation can name: the values that the trigger offers, by name in any
// case, and those that each invocation has.
type Data struct {
	Began    time.Time // when the invocation began
	Function string    // the name of its function

	entries []dataEntry
	// index are the positions in entries by name in lower case: a payload may have any number of members.
	index map[string]int
}

type dataEntry struct {
	name  string
	value any
}

// Set sets a value that the trigger offers.
func (d *Data) Set(name string, value any) {
	key := strings.ToLower(name)
	if i, ok := d.index[key]; ok {
		d.entries[i].value = value
		return
	}
	if d.index == nil {
		d.index = map[string]int{}
	}
	d.index[key] = len(d.entries)
	d.entries = append(d.entries, dataEntry{name, value})
}

// All are the names and values that the trigger offers, in the order in which they were set.
func (d *Data) All() iter.Seq2[string, any] {
	return func(yield func(string, any) bool) {
		for _, e := range d.entries {
			if !yield(e.name, e.value) {
				return
			}
		}
	}
}

// Get returns the value of a name. It is nil for an optional parameter of a route that a request leaves out.
func (d *Data) Get(name string) (any, bool) {
	if i, ok := d.index[strings.ToLower(name)]; ok {
		return d.entries[i].value, true
	}
	return nil, false
}

// AddPayload makes the members of a payload that is a JSON object known by their names. A member goes before what the
// trigger itself has under that name. Lists and nulls are left out; numbers and booleans become text.
func (d *Data) AddPayload(text string) {
	text = strings.TrimSpace(text)
	if !strings.HasPrefix(text, "{") || !strings.HasSuffix(text, "}") {
		return
	}
	var r jsonfile.Report
	object, err := jsonfile.Parse(&r, "", "", json.RawMessage(text))
	if err != nil {
		return // Not JSON: not an error; expressions have no value.
	}
	for _, m := range object.Members {
		switch m.Value[0] {
		case '[', 'n':
		case '{':
			d.Set(m.Name, m.Value)
		case 't', 'f':
			// .NET writes True and False.
			d.Set(m.Name, strings.ToUpper(string(m.Value[:1]))+string(m.Value[1:]))
		default:
			s, _ := object.Scalar(m.Name)
			d.Set(m.Name, s)
		}
	}
}

// Template is a text with binding expressions in braces, such as "output/{name}-{rand-guid}.txt".
// https://learn.microsoft.com/azure/azure-functions/functions-bindings-expressions-patterns
type Template struct {
	Source string // as it was written
	parts  []templatePart
}

// templatePart is a literal, or else an expression.
type templatePart struct {
	literal      string
	name, format string
}

// Parse reads a text with expressions.
func Parse(source string) (Template, error) {
	t := Template{Source: source}
	literal := func(s string) {
		if n := len(t.parts); n > 0 && t.parts[n-1].name == "" {
			t.parts[n-1].literal += s
			return
		}
		t.parts = append(t.parts, templatePart{literal: s})
	}
	// rest begins outside of an expression. Doubled braces come first: "{{" would otherwise open an expression.
	for rest := source; rest != ""; {
		switch {
		case strings.HasPrefix(rest, "{{"), strings.HasPrefix(rest, "}}"):
			literal(rest[:1])
			rest = rest[2:]
		case rest[0] == '{':
			inner, after, closed := strings.Cut(rest[1:], "}")
			name, format, _ := strings.Cut(inner, ":")
			name = strings.TrimSpace(name)
			if !closed || name == "" || strings.ContainsAny(name, "{ ") {
				return t, fmt.Errorf("%q: a brace is not closed, or holds no name", source)
			}
			t.parts = append(t.parts, templatePart{name: name, format: format})
			rest = after
		case rest[0] == '}':
			return t, fmt.Errorf("%q: a brace is closed that was not opened", source)
		default:
			end := strings.IndexAny(rest, "{}")
			if end < 0 {
				end = len(rest)
			}
			literal(rest[:end])
			rest = rest[end:]
		}
	}
	return t, nil
}

// system reports whether a name has a value whatever the trigger is.
func system(name string) bool {
	switch strings.ToLower(name) {
	case "rand-guid", "datetime", "sys.randguid", "sys.utcnow", "sys.methodname":
		return true
	}
	return false
}

// OfTrigger are the names of the expressions whose values only a trigger has.
func (t Template) OfTrigger() (names []string) {
	for _, p := range t.parts {
		if p.name != "" && !system(p.name) {
			names = append(names, p.name)
		}
	}
	return names
}

// Resolve fills in the values of one invocation.
func (t Template) Resolve(d *Data) (string, error) {
	var b strings.Builder
	for _, p := range t.parts {
		if p.name == "" {
			b.WriteString(p.literal)
			continue
		}
		text, err := p.resolve(d)
		if err != nil {
			return "", fmt.Errorf("%q: {%s}: %w", t.Source, p.name, err)
		}
		b.WriteString(text)
	}
	return b.String(), nil
}

// resolve returns the text of an expression.
func (p templatePart) resolve(d *Data) (string, error) {
	value, err := p.find(d)
	if err != nil {
		return "", err
	}
	return p.text(value)
}

// find returns the value of an expression; a [uuid.UUID], a [time.Time] or what the trigger has.
func (p templatePart) find(d *Data) (any, error) {
	switch strings.ToLower(p.name) {
	case "rand-guid", "sys.randguid":
		return uuid.New(), nil
	case "datetime", "sys.utcnow":
		return d.Began, nil
	case "sys.methodname":
		return d.Function, nil
	}
	path := strings.Split(p.name, ".")
	value, ok := d.Get(path[0])
	for _, name := range path[1:] {
		if !ok {
			break
		}
		value, ok = memberOf(value, name)
	}
	if !ok {
		return nil, errors.New("the trigger has no value of that name")
	}
	return value, nil
}

// text writes a value in the format of the expression. Nothing is the empty text, as in the host:
// https://github.com/Azure/azure-webjobs-sdk/blob/f79ea0b/src/Microsoft.Azure.WebJobs.Host/Bindings/BindingDataPathHelper.cs
func (p templatePart) text(value any) (string, error) {
	switch v := value.(type) {
	case nil:
		return "", nil
	case uuid.UUID:
		return formatGUID(v, p.format)
	case time.Time:
		return formatTime(v, p.format)
	}
	return jsonvalue.Plain(value), nil
}

// memberOf returns a member of a value that is an object.
func memberOf(value any, name string) (any, bool) {
	text, err := json.Marshal(value)
	if err != nil || len(text) == 0 || text[0] != '{' {
		return nil, false
	}
	var d Data
	d.AddPayload(string(text))
	return d.Get(name)
}

// formatGUID knows .NET's formats N, D, B and P.
func formatGUID(id uuid.UUID, format string) (string, error) {
	switch strings.ToUpper(format) {
	case "", "D":
		return id.String(), nil
	case "N":
		return strings.ReplaceAll(id.String(), "-", ""), nil
	case "B":
		return "{" + id.String() + "}", nil
	case "P":
		return "(" + id.String() + ")", nil
	}
	return "", fmt.Errorf("the format %q of a GUID is not N, D, B or P", format)
}

// formatTime writes a time in UTC by a format of .NET, by default as Functions does: 2018-02-16T17-59-55Z.
// https://learn.microsoft.com/dotnet/standard/base-types/custom-date-and-time-format-strings
func formatTime(t time.Time, format string) (string, error) {
	if format == "" {
		format = "yyyy-MM-ddTHH-mm-ssK"
	}
	t = t.UTC()
	var b strings.Builder
	for i := 0; i < len(format); {
		// A run of one letter is one specifier, and its length selects the form.
		n := 1
		for i+n < len(format) && format[i+n] == format[i] {
			n++
		}
		switch format[i] {
		case 'y':
			year := t.Year()
			if n <= 2 {
				year %= 100
			}
			fmt.Fprintf(&b, "%0*d", n, year)
		case 'M':
			switch n {
			case 1, 2:
				fmt.Fprintf(&b, "%0*d", n, int(t.Month()))
			case 3:
				b.WriteString(t.Month().String()[:3])
			default:
				b.WriteString(t.Month().String())
			}
		case 'd':
			switch n {
			case 1, 2:
				fmt.Fprintf(&b, "%0*d", n, t.Day())
			case 3:
				b.WriteString(t.Weekday().String()[:3])
			default:
				b.WriteString(t.Weekday().String())
			}
		case 'H':
			fmt.Fprintf(&b, "%0*d", min(n, 2), t.Hour())
		case 'h':
			fmt.Fprintf(&b, "%0*d", min(n, 2), (t.Hour()+11)%12+1)
		case 'm':
			fmt.Fprintf(&b, "%0*d", min(n, 2), t.Minute())
		case 's':
			fmt.Fprintf(&b, "%0*d", min(n, 2), t.Second())
		case 'f':
			if n > 7 {
				return "", fmt.Errorf("the format %q has more than 7 f", format)
			}
			b.WriteString(fmt.Sprintf("%07d", t.Nanosecond()/100)[:n])
		case 't':
			b.WriteString(t.Format("PM")[:min(n, 2)])
		case 'K':
			b.WriteString(strings.Repeat("Z", n))
		case '\'', '"':
			quote := format[i]
			end := strings.IndexByte(format[i+1:], quote)
			if end < 0 {
				return "", fmt.Errorf("the format %s lacks a closing quote", strconv.Quote(format))
			}
			b.WriteString(format[i+1 : i+1+end])
			n = end + 2
		case '\\':
			if i+1 < len(format) {
				b.WriteByte(format[i+1])
			}
			n = 2
		default:
			b.WriteString(format[i : i+n])
		}
		i += n
	}
	return b.String(), nil
}
