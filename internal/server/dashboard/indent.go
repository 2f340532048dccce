package dashboard

import (
	"bytes"
	"encoding/json"
)

// maxBlanks is the maximum length of the indentation of a JSON text, as a multiple of the text's length, for texts of
// more than a KiB.
const maxBlanks = 8

// indent returns a JSON text with line breaks and indentation. ok is false if it is not JSON, or if the result would be
// much longer than the text: 64 KiB with brackets in brackets would become hundreds of megabytes.
func indent(text []byte) (indented string, ok bool) {
	// Counted before anything is written. Indent adds two blanks for each level at each member, so the size grows with
	// the square of the depth.
	blanks, depth, quoted := 0, 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		// An escaped quote does not end the text, and brackets in a text are no levels.
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
			blanks += 2 * depth
		case c == '}' || c == ']':
			depth--
			blanks += 2 * depth
		case c == ',':
			blanks += 2 * depth
		}
	}
	if blanks > maxBlanks*max(len(text), 1<<10) {
		return "", false
	}
	var out bytes.Buffer
	if err := json.Indent(&out, text, "", "  "); err != nil {
		return "", false
	}
	return out.String(), true
}
