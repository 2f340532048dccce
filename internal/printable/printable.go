// Package printable makes texts fit for a terminal. A text that quotes what is stored, such as a name, a key of a
// damaged file or the error of another program, may have bytes that a terminal takes for commands: they would change
// what is on the screen, and what the next lines look like.
package printable

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Line returns s as one line: what a terminal would not print is escaped, and the lines of joined errors are separated
// by semicolons.
func Line(s string) string {
	return escape(s, func(r rune) string {
		if r == '\n' {
			return "; "
		}
		return ""
	})
}

// Text is like [Line], and keeps line ends and tabs.
func Text(s string) string {
	return escape(s, func(r rune) string {
		if r == '\n' || r == '\t' {
			return string(r)
		}
		return ""
	})
}

// escape replaces what is no printable character. instead returns what stands for one, "" for an escape.
func escape(s string, instead func(rune) string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError }) {
		return s
	}
	var out strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch other := instead(r); {
		case other != "":
			out.WriteString(other)
		case unicode.IsPrint(r) && (r != utf8.RuneError || n > 1):
			out.WriteString(s[:n])
		case n == 1:
			fmt.Fprintf(&out, "\\x%02x", s[0])
		default:
			fmt.Fprintf(&out, "\\u%04x", r)
		}
		s = s[n:]
	}
	return out.String()
}
