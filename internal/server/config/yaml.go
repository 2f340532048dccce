package config

import (
	"errors"
	"fmt"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// ErrUnreadableYAML means that the parser cannot read a text, and not why or where.
var ErrUnreadableYAML = errors.New("the file is not YAML that can be read")

// UnmarshalYAML decodes a file of a user into v. Unknown fields are errors. The parser of the library panics for some
// texts, such as certain tags; such a file is an error, too.
func UnmarshalYAML(text []byte, v any) (err error) {
	defer contain(&err)
	return yaml.UnmarshalWithOptions(text, v, yaml.DisallowUnknownField())
}

// parseYAML parses a file of a user.
func parseYAML(text []byte) (f *ast.File, err error) {
	defer contain(&err)
	return parser.ParseBytes(text, 0)
}

// contain makes a panic an error.
func contain(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("%w: %v", ErrUnreadableYAML, p)
	}
}
