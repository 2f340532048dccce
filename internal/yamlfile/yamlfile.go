// Package yamlfile reads YAML files of users. The library's parser panics for some texts, such as certain tags; a file never ends the process.
package yamlfile

import (
	"errors"
	"fmt"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// ErrUnreadable means that the parser cannot read a text, and not why or where.
var ErrUnreadable = errors.New("the text is not YAML that can be read")

// Unmarshal decodes a document into v. Unknown fields are errors.
func Unmarshal(text []byte, v any) (err error) {
	defer contain(&err)
	return yaml.UnmarshalWithOptions(text, v, yaml.DisallowUnknownField())
}

// Parse parses a text.
func Parse(text []byte) (f *ast.File, err error) {
	defer contain(&err)
	return parser.ParseBytes(text, 0)
}

// contain makes a panic an error.
func contain(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("%w: %v", ErrUnreadable, p)
	}
}
