package config

import (
	"errors"
	"fmt"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// ErrUnreadableYAML means that the parser cannot read a text, and not why or where.
var ErrUnreadableYAML = errors.New("the file is not YAML that can be read")

// UnmarshalYAML decodes a file of a user into v. Unknown fields are errors. The parser of the library panics for some
// texts, such as certain tags; such a file is an error, too.
func UnmarshalYAML(text []byte, v any) (err error) {
	defer contain(&err)
	if err := checkNesting(text); err != nil {
		return err
	}
	return yaml.UnmarshalWithOptions(text, v, yaml.DisallowUnknownField())
}

// parseYAML parses a file of a user.
func parseYAML(text []byte) (f *ast.File, err error) {
	defer contain(&err)
	if err := checkNesting(text); err != nil {
		return nil, err
	}
	return parser.ParseBytes(text, 0)
}

// maxNesting is the number of lists and mappings within each other, and of marks before one value, that a file may
// have.
const maxNesting = 100

// checkNesting fails for texts that are nested deeply: the time of the parser grows with the square of the depth, so
// that a text of 1 MiB takes hours. It reads tokens alone, which takes time in proportion to the length.
func checkNesting(text []byte) error {
	depth, marks, line := 0, 0, 0
	for _, t := range lexer.Tokenize(string(text)) {
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			depth++
		case token.SequenceEndType, token.MappingEndType:
			// A closing bracket too many is an error of the parser, and must not allow deeper nesting later.
			depth = max(0, depth-1)
		case token.SequenceEntryType, token.MappingKeyType, token.AnchorType, token.TagType: // of values in one line
			if t.Position.Line != line {
				marks, line = 0, t.Position.Line
			}
			marks++
		case token.CollectEntryType: // a comma, behind which another value begins
			marks = 0
		}
		if depth > maxNesting || marks > maxNesting {
			return fmt.Errorf("%w: line %d: lists and mappings are more than %d within each other", ErrUnreadableYAML,
				t.Position.Line, maxNesting)
		}
	}
	return nil
}

// contain makes a panic an error.
func contain(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("%w: %v", ErrUnreadableYAML, p)
	}
}
