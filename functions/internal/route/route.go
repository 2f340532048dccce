// Package route reads the routes of HTTP triggers, which are templates of ASP.NET Core, and finds out whether a path
// matches one, with which values. It knows neither functions nor requests: a path is a list of segments.
//
// Start with Parse and Route.Find.
package route

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/lazuli-storage/lazuli/internal/lazyregexp"
)

// Route is a template of ASP.NET Core: "orders/{id:int}/{format?}", "{*rest}".
// https://learn.microsoft.com/aspnet/core/fundamentals/routing#route-templates
type Route struct {
	Source   string // the template as it was written
	segments []segment
}

// segment is the part of a route between two slashes: a sequence of text and parameters.
type segment struct {
	literal string // if it has no parameter
	params  []parameter
	match   *regexp.Regexp // if it has
	rest    bool           // {*name}: all that is left of the path
}

type parameter struct {
	name        string
	optional    bool
	fallback    string
	hasFallback bool
	constraints []constraint
}

// constraint decides whether a value fits.
type constraint func(value string) bool

// Parse reads a template.
func Parse(source string) (*Route, error) {
	r := &Route{Source: source}
	text := strings.TrimPrefix(strings.TrimPrefix(source, "~"), "/")
	seen := map[string]bool{}
	for text != "" {
		end := segmentEnd(text)
		s, err := parseSegment(text[:end])
		if err != nil {
			return nil, fmt.Errorf("route %q: %w", source, err)
		}
		for _, p := range s.params {
			if seen[strings.ToLower(p.name)] {
				return nil, fmt.Errorf("route %q: {%s} occurs twice", source, p.name)
			}
			seen[strings.ToLower(p.name)] = true
		}
		if n := len(r.segments); n > 0 && r.segments[n-1].rest {
			return nil, fmt.Errorf("route %q: {*...} must be the last segment", source)
		}
		r.segments = append(r.segments, s)
		text = strings.TrimPrefix(text[end:], "/")
	}
	if len(r.segments) > 0 && slices.Contains([]string{"admin", "runtime"}, strings.ToLower(r.segments[0].literal)) {
		return nil, fmt.Errorf("route %q: the prefixes admin and runtime are reserved for the host", source)
	}
	return r, nil
}

// segmentEnd is the position at which the first segment ends: at a slash outside of braces.
func segmentEnd(text string) int {
	depth := 0
	for i, c := range text {
		switch {
		case c == '{':
			depth++
		case c == '}':
			depth--
		case c == '/' && depth <= 0:
			return i
		}
	}
	return len(text)
}

func parseSegment(text string) (segment, error) {
	if text == "" {
		return segment{}, errors.New("a segment is empty")
	}
	var s segment
	var match, literal strings.Builder
	match.WriteString("(?is)^")
	for rest := text; rest != ""; {
		switch {
		case strings.HasPrefix(rest, "{{"), strings.HasPrefix(rest, "}}"):
			match.WriteString(regexp.QuoteMeta(rest[:1]))
			literal.WriteByte(rest[0])
			rest = rest[2:]
		case rest[0] == '{':
			end := closing(rest)
			if end < 0 {
				return s, errors.New("a brace is not closed")
			}
			inner := rest[1:end]
			rest = rest[end+1:]
			if name, ok := strings.CutPrefix(inner, "*"); ok {
				inner, s.rest = strings.TrimPrefix(name, "*"), true
			}
			p, err := parseParameter(inner)
			if err != nil {
				return s, err
			}
			if s.rest && (len(s.params) > 0 || literal.Len() > 0 || rest != "") {
				return s, errors.New("{*...} must be a whole segment")
			}
			switch {
			case p.optional && rest == "" && strings.HasSuffix(literal.String(), ".") && len(s.params) > 0:
				// "{file}.{extension?}": with the extension the period is optional too.
				expression := strings.TrimSuffix(match.String(), `\.`)
				match.Reset()
				match.WriteString(expression + `(?:\.(.+))?`)
			default:
				match.WriteString("(.+?)")
			}
			s.params = append(s.params, p)
		case rest[0] == '}':
			return s, errors.New("a brace is closed that was not opened")
		default:
			end := strings.IndexAny(rest, "{}")
			if end < 0 {
				end = len(rest)
			}
			match.WriteString(regexp.QuoteMeta(rest[:end]))
			literal.WriteString(rest[:end])
			rest = rest[end:]
		}
	}
	if len(s.params) == 0 {
		s.literal = literal.String()
		return s, nil
	}
	match.WriteString("$")
	var err error
	s.match, err = regexp.Compile(match.String())
	return s, err
}

// closing finds the brace that closes the first one. Doubled braces inside are a constraint's own.
func closing(text string) int {
	for i := 1; i < len(text); i++ {
		switch {
		case strings.HasPrefix(text[i:], "{{"), strings.HasPrefix(text[i:], "}}") && strings.Contains(text[1:i], "{{"):
			i++
		case text[i] == '}':
			return i
		}
	}
	return -1
}

var parameterName = lazyregexp.New(`^[A-Za-z_][A-Za-z0-9_-]*$`)

// parseParameter reads "name:constraint:constraint(argument)=fallback?".
func parseParameter(text string) (parameter, error) {
	var p parameter
	text, p.optional = strings.CutSuffix(text, "?")
	// The fallback is cut off first, at an = after the last parenthesis: arguments such as regex(a=b) may have others.
	name, rest, _ := strings.Cut(text, ":")
	if rest == "" {
		name, p.fallback, p.hasFallback = strings.Cut(name, "=")
	} else if open := strings.LastIndexByte(rest, ')'); strings.Contains(rest[open+1:], "=") {
		at := open + 1 + strings.IndexByte(rest[open+1:], '=')
		rest, p.fallback, p.hasFallback = rest[:at], rest[at+1:], true
	}
	p.name = name
	if !parameterName().MatchString(name) {
		return p, fmt.Errorf("%q is not a parameter's name", name)
	}
	for rest != "" {
		var one string
		if open := strings.IndexByte(rest, '('); open >= 0 && !strings.Contains(rest[:open], ":") {
			// Arguments may have parentheses and colons: one ends at "):", or at the last parenthesis.
			end := strings.LastIndex(rest, ")")
			if next := strings.Index(rest, "):"); next >= 0 {
				end = next
			}
			if end < open {
				return p, fmt.Errorf("{%s}: a parenthesis is not closed", name)
			}
			one, rest = rest[:end+1], strings.TrimPrefix(rest[end+1:], ":")
		} else {
			one, rest, _ = strings.Cut(rest, ":")
		}
		c, err := parseConstraint(one)
		if err != nil {
			return p, fmt.Errorf("{%s}: %w", name, err)
		}
		p.constraints = append(p.constraints, c)
	}
	return p, nil
}

var letters = lazyregexp.New(`^[A-Za-z]*$`)

// parseConstraint knows the constraints of ASP.NET Core.
// https://learn.microsoft.com/aspnet/core/fundamentals/routing#route-constraints
func parseConstraint(text string) (constraint, error) {
	name, argument, _ := strings.Cut(text, "(")
	argument = strings.TrimSuffix(argument, ")")
	var numbers []int64
	for n := range strings.SplitSeq(argument, ",") {
		if v, err := strconv.ParseInt(strings.TrimSpace(n), 10, 64); err == nil {
			numbers = append(numbers, v)
		}
	}
	count := map[string]int{"minlength": 1, "maxlength": 1, "min": 1, "max": 1, "range": 2}
	name = strings.ToLower(name)
	// Checked once here, so that the functions below can use numbers[0] and numbers[1] without a look.
	if n, ok := count[name]; ok && len(numbers) != n {
		return nil, fmt.Errorf("the constraint %q wants %d whole numbers", text, n)
	}
	number := func(check func(n int64) bool) constraint {
		return func(v string) bool { n, err := strconv.ParseInt(v, 10, 64); return err == nil && check(n) }
	}
	length := func(check func(n int64) bool) constraint {
		return func(v string) bool { return check(int64(len([]rune(v)))) }
	}
	switch name {
	case "int":
		return func(v string) bool { _, err := strconv.ParseInt(v, 10, 32); return err == nil }, nil
	case "long":
		return number(func(int64) bool { return true }), nil
	case "bool":
		return func(v string) bool { return strings.EqualFold(v, "true") || strings.EqualFold(v, "false") }, nil
	case "decimal", "double", "float":
		return func(v string) bool { _, err := strconv.ParseFloat(v, 64); return err == nil }, nil
	case "guid":
		return func(v string) bool { _, err := uuid.Parse(v); return err == nil }, nil
	case "datetime":
		return isDateTime, nil
	case "alpha":
		return letters().MatchString, nil
	case "required":
		return func(v string) bool { return v != "" }, nil
	case "length":
		switch len(numbers) {
		case 1:
			return length(func(n int64) bool { return n == numbers[0] }), nil
		case 2:
			return length(func(n int64) bool { return n >= numbers[0] && n <= numbers[1] }), nil
		}
		return nil, fmt.Errorf("the constraint %q wants one or two whole numbers", text)
	case "minlength":
		return length(func(n int64) bool { return n >= numbers[0] }), nil
	case "maxlength":
		return length(func(n int64) bool { return n <= numbers[0] }), nil
	case "min":
		return number(func(n int64) bool { return n >= numbers[0] }), nil
	case "max":
		return number(func(n int64) bool { return n <= numbers[0] }), nil
	case "range":
		return number(func(n int64) bool { return n >= numbers[0] && n <= numbers[1] }), nil
	case "regex":
		// In a route braces and brackets are doubled, since single ones have a meaning there.
		argument = strings.NewReplacer("{{", "{", "}}", "}", "[[", "[", "]]", "]").Replace(argument)
		// ASP.NET Core matches without regard to case.
		r, err := regexp.Compile("(?i)" + argument)
		if err != nil {
			return nil, fmt.Errorf("the constraint %q: %w", text, err)
		}
		return r.MatchString, nil
	}
	return nil, fmt.Errorf("the constraint %q is not known", text)
}

// isDateTime accepts the usual invariant forms.
func isDateTime(v string) bool {
	for _, layout := range []string{"2006-01-02", "2006-01-02T15:04:05", time.RFC3339Nano, "2006-01-02 15:04:05",
		"2006-01-02 15:04", "2006-01-02 3:04pm", "01-02-2006", "1-2-2006"} {
		if _, err := time.Parse(layout, v); err == nil {
			return true
		}
	}
	return false
}

// Find matches a path without a leading slash, whose segments are unescaped already. It returns the parameters' values;
// those that are optional and absent are nil.
func (r *Route) Find(path []string) (map[string]any, bool) {
	values := map[string]any{}
	for i, s := range r.segments {
		switch {
		case s.rest:
			var rest string
			if i < len(path) {
				rest = strings.Join(path[i:], "/")
			}
			return values, s.params[0].take(values, rest)
		case i >= len(path):
			// Only a whole segment can be absent, as in ASP.NET Core: one with text or several parameters cannot.
			if len(s.params) != 1 || !s.params[0].take(values, "") || !s.params[0].optional && !s.params[0].hasFallback {
				return nil, false
			}
		case path[i] == "":
			return nil, false // two slashes are not a segment without a value
		case s.match == nil:
			if !strings.EqualFold(s.literal, path[i]) {
				return nil, false
			}
		default:
			found := s.match.FindStringSubmatch(path[i])
			if found == nil {
				return nil, false
			}
			for k, p := range s.params {
				if !p.take(values, found[k+1]) {
					return nil, false
				}
			}
		}
	}
	return values, len(path) <= len(r.segments)
}

// take notes a value and reports whether it fits.
func (p parameter) take(values map[string]any, value string) bool {
	if value == "" {
		values[p.name] = nil
		if p.hasFallback {
			values[p.name] = p.fallback
		}
		return true
	}
	for _, fits := range p.constraints {
		if !fits(value) {
			return false
		}
	}
	values[p.name] = value
	return true
}

// Compare orders routes so that the more special one comes first: segment by segment, text before a parameter
// with constraints before one without before the rest of the path; then the shorter one.
func Compare(a, b *Route) int {
	for i := range min(len(a.segments), len(b.segments)) {
		if c := a.segments[i].rank() - b.segments[i].rank(); c != 0 {
			return c
		}
	}
	return len(a.segments) - len(b.segments)
}

func (s segment) rank() int {
	constrained := len(s.params) > 0 && len(s.params[0].constraints) > 0
	switch {
	case len(s.params) == 0:
		return 1
	case s.rest && constrained:
		return 4
	case s.rest:
		return 5
	case constrained, len(s.params) > 1:
		return 2
	}
	return 3
}
