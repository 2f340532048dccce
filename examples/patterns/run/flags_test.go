package run

import (
	"flag"
	"io"
	"strings"
	"testing"
)

// A flag that a program does not have, or an argument, is an error, and not ignored.
func TestFlags(t *testing.T) {
	for args, want := range map[string]string{"": "", "--keep": "", "--step": "flag provided but not defined: -step",
		"--keep=maybe": "invalid boolean value", "keep": `unexpected argument "keep"`} {
		fl := flag.NewFlagSet("program", flag.ContinueOnError)
		fl.SetOutput(io.Discard)
		keep, err := parse(fl, strings.Fields(args))
		if want == "" && (err != nil || keep != (args != "")) || want != "" && (err == nil ||
			!strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, %v; want %q", args, keep, err, want)
		}
	}
}
