package functions

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
)

// bindingData are the values that a trigger offers to binding expressions, by name in any case.
type bindingData struct {
	entries []dataEntry
	// index are the positions in entries by name in lower case: a payload may have any number of members.
	index map[string]int
}

type dataEntry struct {
	name  string
	value any
}

func (d *bindingData) set(name string, value any) {
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

// get returns the value of a name. It is nil for an optional parameter of a route that a request leaves out.
func (d *bindingData) get(name string) (any, bool) {
	if i, ok := d.index[strings.ToLower(name)]; ok {
		return d.entries[i].value, true
	}
	return nil, false
}

// addPayload makes the members of a payload that is a JSON object known by their names. A member goes before what the
// trigger itself has under that name. Lists and nulls are left out; numbers and booleans become text.
func (d *bindingData) addPayload(text string) {
	text = strings.TrimSpace(text)
	if !strings.HasPrefix(text, "{") || !strings.HasSuffix(text, "}") {
		return
	}
	var r report
	object, err := newSection(&r, "", "", json.RawMessage(text))
	if err != nil {
		return // Not JSON: not an error; expressions have no value.
	}
	for _, m := range object.members {
		switch m.value[0] {
		case '[', 'n':
		case '{':
			d.set(m.name, m.value)
		case 't', 'f':
			// .NET writes True and False.
			d.set(m.name, strings.ToUpper(string(m.value[:1]))+string(m.value[1:]))
		default:
			s, _ := object.scalar(m.name)
			d.set(m.name, s)
		}
	}
}

// template is a text with binding expressions in braces, such as "output/{name}-{rand-guid}.txt".
// https://learn.microsoft.com/azure/azure-functions/functions-bindings-expressions-patterns
type template struct {
	source string
	parts  []templatePart
}

// templatePart is a literal, or else an expression.
type templatePart struct {
	literal      string
	name, format string
}

func parseTemplate(source string) (template, error) {
	t := template{source: source}
	literal := func(s string) {
		if n := len(t.parts); n > 0 && t.parts[n-1].name == "" {
			t.parts[n-1].literal += s
			return
		}
		t.parts = append(t.parts, templatePart{literal: s})
	}
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

// resolve fills in the values of one invocation.
func (t template) resolve(inv *invocation) (string, error) {
	var b strings.Builder
	for _, p := range t.parts {
		if p.name == "" {
			b.WriteString(p.literal)
			continue
		}
		text, err := p.resolve(inv)
		if err != nil {
			return "", fmt.Errorf("%q: {%s}: %w", t.source, p.name, err)
		}
		b.WriteString(text)
	}
	return b.String(), nil
}

// resolve returns the text of an expression.
func (p templatePart) resolve(inv *invocation) (string, error) {
	value, err := p.find(inv)
	if err != nil {
		return "", err
	}
	return p.text(value)
}

// find returns the value of an expression; a [uuid.UUID], a [time.Time] or what the trigger has.
func (p templatePart) find(inv *invocation) (any, error) {
	switch strings.ToLower(p.name) {
	case "rand-guid", "sys.randguid":
		return uuid.New(), nil
	case "datetime", "sys.utcnow":
		return inv.began, nil
	case "sys.methodname":
		return inv.function.name, nil
	}
	path := strings.Split(p.name, ".")
	value, ok := inv.data.get(path[0])
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
	return plainText(value), nil
}

// memberOf returns a member of a value that is an object.
func memberOf(value any, name string) (any, bool) {
	text, err := json.Marshal(value)
	if err != nil || len(text) == 0 || text[0] != '{' {
		return nil, false
	}
	var d bindingData
	d.addPayload(string(text))
	return d.get(name)
}

// plainText formats a value for a name or a path.
func plainText(value any) string {
	switch v := value.(type) {
	case string:
		return v
	case []byte:
		return base64.StdEncoding.EncodeToString(v)
	case json.RawMessage:
		var b bytes.Buffer
		if json.Compact(&b, v) == nil {
			return b.String()
		}
		return string(v)
	}
	return fmt.Sprint(value)
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
