package display

import (
	"bytes"
	"encoding/json"
	"strings"
)

// Clip returns the first bytes of a text, and whether it is longer.
func Clip(text string, most int) (string, bool) {
	if len(text) <= most {
		return text, false
	}
	return strings.ToValidUTF8(text[:most], "") + "…", true
}

// maxText is the part of a message that the page of a queue shows, in bytes.
const maxText = 8 << 10

// Readable is the beginning of a message's body as people read it: JSON is indented.
func Readable(body string) (text string, cut bool) {
	var out bytes.Buffer
	if len(body) <= maxText && json.Indent(&out, []byte(body), "", "  ") == nil {
		body = out.String()
	}
	return Clip(body, maxText)
}

// Indent returns a JSON text with line breaks and indentation. ok is false if it is not JSON, or if the result would be
// much longer than the text: 64 KiB with brackets in brackets would become hundreds of megabytes.
func Indent(text []byte) (indented string, ok bool) {
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

// maxBlanks is the maximum length of the indentation of a JSON text, as a multiple of the text's length, for texts of
// more than a KiB.
const maxBlanks = 8
