// Package blobpath reads the path patterns of Azure Functions' blob triggers: "container/folder/{name}.{extension}".
// https://learn.microsoft.com/azure/azure-functions/functions-bindings-storage-blob-trigger#blob-name-patterns
package blobpath

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/lazuli-storage/lazuli/internal/lazyregexp"
)

// Pattern matches the names of blobs in one container.
type Pattern struct {
	// Container is the container's name; it cannot be a pattern.
	Container string
	// Prefix is the common prefix of all matching names.
	Prefix string

	names []string
	match *regexp.Regexp
}

var validName = lazyregexp.New(`^[A-Za-z_][A-Za-z0-9_]*$`)

// Parse reads a pattern. Names in braces match any text, the first as much as it can; "{{" and "}}" stand for braces. A
// path without a slash means all blobs of the container.
func Parse(path string) (Pattern, error) {
	p, err := parse(path)
	if err != nil {
		return Pattern{}, fmt.Errorf("blob path %q: %w", path, err)
	}
	return p, nil
}

func parse(path string) (Pattern, error) {
	container, rest, ok := strings.Cut(path, "/")
	if !ok {
		rest = "{name}"
	}
	switch {
	case container == "" || strings.ContainsAny(container, "{}"):
		return Pattern{}, errors.New("it must begin with a container's name and a slash")
	case rest == "":
		return Pattern{}, errors.New("it names no blob")
	}
	p := Pattern{Container: container}
	var expression, literal strings.Builder
	// Names of blobs may have line breaks.
	expression.WriteString(`(?s)^`)
	seen := map[string]bool{}
	for rest != "" {
		switch {
		// Doubled braces are braces of the name, as in the Functions host.
		case strings.HasPrefix(rest, "{{"), strings.HasPrefix(rest, "}}"):
			literal.WriteByte(rest[0])
			expression.WriteString(regexp.QuoteMeta(rest[:1]))
			rest = rest[2:]
		case rest[0] == '{':
			name, after, closed := strings.Cut(rest[1:], "}")
			if !closed || !validName().MatchString(name) {
				return Pattern{}, errors.New("a brace is not closed, or what is in braces is not a name")
			}
			if seen[name] {
				return Pattern{}, fmt.Errorf("{%s} occurs twice", name)
			}
			seen[name] = true
			// The literal text before the first placeholder: lists ask for this prefix alone.
			if len(p.names) == 0 {
				p.Prefix = literal.String()
			}
			p.names = append(p.names, name)
			// Greedy, with slashes, as in the host: {name} takes as much as the rest of the pattern allows.
			expression.WriteString(`(.*)`)
			rest = after
		case rest[0] == '}':
			return Pattern{}, errors.New("a brace is closed that was not opened")
		default:
			end := strings.IndexAny(rest, "{}")
			if end < 0 {
				end = len(rest)
			}
			literal.WriteString(rest[:end])
			expression.WriteString(regexp.QuoteMeta(rest[:end]))
			rest = rest[end:]
		}
	}
	if len(p.names) == 0 {
		p.Prefix = literal.String()
	}
	expression.WriteString(`$`)
	var err error
	p.match, err = regexp.Compile(expression.String())
	return p, err
}

// Match returns what the names in braces stand for in a blob's name, and whether the name matches at all.
func (p Pattern) Match(blob string) (map[string]string, bool) {
	found := p.match.FindStringSubmatch(blob)
	if found == nil {
		return nil, false
	}
	values := make(map[string]string, len(p.names))
	for i, name := range p.names {
		values[name] = found[i+1]
	}
	return values, true
}
