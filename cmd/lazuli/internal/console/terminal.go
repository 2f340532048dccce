package console

import (
	"io"
	"os"

	"github.com/mattn/go-isatty"
)

// Style adds terminal colours, or nothing.
type Style struct{ On bool }

func (s Style) Bold(text string) string { return s.wrap("1", text) }
func (s Style) Blue(text string) string { return s.wrap("34", text) }

func (s Style) wrap(code, text string) string {
	if !s.On {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// IsTerminal reports whether w is a terminal that wants colours.
// https://no-color.org
func IsTerminal(w io.Writer) bool {
	return os.Getenv("NO_COLOR") == "" && Screen(w)
}

// Screen reports whether w is a terminal that can rewrite what it shows.
func Screen(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && isatty.IsTerminal(f.Fd()) && os.Getenv("TERM") != "dumb"
}
