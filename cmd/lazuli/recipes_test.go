package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// recipeLine is a line of a shell that begins with this program.
var recipeLine = regexp.MustCompile(`^(?:sudo )?(?:[A-Z_]+=\S+ )*lazuli( .*|)$`)

// recipes returns the command lines of this program in the blocks of code of a page, without the program's name.
func recipes(page string) (lines []string) {
	fenced := false
	page = strings.ReplaceAll(page, "\\\n", " ")
	for line := range strings.Lines(page) {
		if line = strings.TrimRight(line, "\n"); strings.HasPrefix(line, "```") {
			fenced = !fenced
		}
		text, indented := strings.CutPrefix(line, "    ")
		if !fenced && !indented {
			continue
		}
		if m := recipeLine.FindStringSubmatch(text); m != nil && !strings.HasPrefix(m[1], " :=") {
			lines = append(lines, m[1])
		}
	}
	return lines
}

// words splits a line as a shell does, as far as the documents need it: quotes, comments, and what ends a command.
func words(line string) (list []string) {
	var word strings.Builder
	begun, quote := false, rune(0)
	end := func() {
		if begun {
			list = append(list, word.String())
		}
		word.Reset()
		begun = false
	}
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, begun = r, true
		case r == ' ':
			end()
		case r == '#' && !begun, r == '|' && !begun, r == '&', r == ';', r == '>', r == ')':
			end()
			return list
		default:
			word.WriteRune(r)
			begun = true
		}
	}
	end()
	return list
}

// placeholder matches a line that shows the form of commands: it has words that a reader replaces by one of several.
var placeholder = regexp.MustCompile(`\[flags\]|VERB|\bID\b|\w\|\w`)

// Every command line of the documents names a verb that exists, with flags and arguments that it takes. Those that make
// certificates are run.
func TestRecipesOfDocuments(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	check.OK(t, err)
	pages = append(pages, "../../README.md")
	texts := map[string]string{}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		check.OK(t, err)
		texts[page] = string(text)
	}
	t.Chdir(t.TempDir())
	checked, certs := 0, 0
	for page, text := range texts {
		for _, line := range recipes(text) {
			if placeholder.MatchString(line) {
				continue
			}
			args := words(line)
			if err := checkCommand(args); err != nil {
				t.Errorf("%s: lazuli%s: %v", page, line, err)
			}
			checked++
			if len(args) == 0 || args[0] != "cert" {
				continue
			}
			certs++
			var out, errs bytes.Buffer
			if code := (&Main{Args: args, Stdout: &out, Stderr: &errs}).Run(t.Context()); code != exitOK {
				t.Errorf("%s: lazuli%s: %d, %s", page, line, code, &errs)
			}
		}
	}
	if checked < 50 || certs == 0 {
		t.Errorf("%d command lines, %d of them for certificates", checked, certs)
	}
}

// checkCommand parses a command line without running it.
func checkCommand(args []string) error {
	root := newRootCommand(&Main{Stdout: &bytes.Buffer{}, Stderr: &bytes.Buffer{}})
	cmd, rest, err := root.Find(args)
	if err != nil {
		return err
	}
	if err := cmd.ParseFlags(rest); err != nil {
		return err
	}
	return checkArgs(cmd)
}

func checkArgs(cmd *cobra.Command) error {
	if err := cmd.ValidateRequiredFlags(); err != nil {
		return err
	}
	return cmd.ValidateArgs(cmd.Flags().Args())
}
