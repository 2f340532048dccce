package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

//go:generate go test . -run TestCommandPageIsCurrent -update

var update = flag.Bool("update", false, "rewrite docs/cli.md")

// docs/cli.md holds every verb's help between two marks. Flags, paragraphs and examples that several verbs share stand
// there once. The flags of serve stand in docs/configuration.md.
func TestCommandPageIsCurrent(t *testing.T) {
	const page, begin, end = "../../docs/cli.md", "<!-- generated: help -->\n", "<!-- end of help -->"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(text), begin)
	_, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s lacks its marks %q and %q", page, begin, end)
	}
	root := newRootCommand(&Main{Stdout: &bytes.Buffer{}, Stderr: &bytes.Buffer{}})
	want := head + begin + newHelpPage(root).String() + end + tail
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if string(text) != want {
		t.Errorf("%s is not current: run go generate ./cmd/lazuli", page)
	}
}

// sharedBy is the number of verbs that share a flag, a paragraph or an example from which on the page has it once.
const sharedBy = 3

// helpPage is the part of the page that is generated.
type helpPage struct {
	strings.Builder
	homes map[string]*cobra.Command // the command whose section has a flag that several verbs share, by flagKey
}

func flagKey(f *pflag.Flag) string { return fmt.Sprint(f.Name, f.Shorthand, f.DefValue, f.Usage) }

func newHelpPage(root *cobra.Command) *helpPage {
	p := &helpPage{homes: map[string]*cobra.Command{}}
	holders := map[string][]*cobra.Command{}
	shared := pflag.NewFlagSet("shared", pflag.ContinueOnError)
	var visit func(c *cobra.Command)
	visit = func(parent *cobra.Command) {
		for _, c := range documented(parent) {
			flagsOf(c).VisitAll(func(f *pflag.Flag) {
				key := flagKey(f)
				list := append(holders[key], c)
				holders[key] = list
				if len(list) < sharedBy {
					return
				}
				p.homes[key] = parent
				if !slices.ContainsFunc(list, func(c *cobra.Command) bool { return c.Parent() != parent }) {
					return
				}
				if g := shared.Lookup(f.Name); g == nil {
					shared.AddFlag(f)
				} else if flagKey(g) != key { // the name has another meaning already: each verb has its own
					delete(p.homes, key)
					return
				}
				p.homes[key] = root
			})
			visit(c)
		}
	}
	visit(root)
	fmt.Fprintf(p, "\n## Flags of several verbs\n\n%s\n", block(shared.FlagUsages()))
	for _, c := range documented(root) {
		p.section(c)
	}
	p.WriteByte('\n')
	return p
}

// documented returns the commands below one that have sections.
func documented(parent *cobra.Command) []*cobra.Command {
	return slices.DeleteFunc(slices.Clone(parent.Commands()), func(c *cobra.Command) bool {
		return c.Hidden || c.Name() == "help" || c.Name() == "completion"
	})
}

// flagsOf returns the flags that the page has of a command.
func flagsOf(c *cobra.Command) *pflag.FlagSet {
	if serves(c) {
		return pflag.NewFlagSet("none", pflag.ContinueOnError)
	}
	return c.LocalFlags()
}

// section writes the help of a command, and of those below it.
func (p *helpPage) section(c *cobra.Command) {
	below := documented(c)
	fmt.Fprintf(p, "\n## %s\n\n", c.CommandPath())
	text := append(ownTexts(c, paragraphs), sharedTexts(below, paragraphs)...)
	if first, _, _ := strings.Cut(c.Short, " "); len(text) == 0 || !strings.HasPrefix(text[0], first) {
		fmt.Fprintf(p, "%s.\n\n", c.Short)
	}
	var blocks []string
	if len(text) > 0 {
		blocks = append(blocks, strings.Join(text, "\n\n"))
	}
	if lines := append(ownTexts(c, examples), sharedTexts(below, examples)...); len(lines) > 0 {
		blocks = append(blocks, strings.Join(lines, "\n"))
	} else if strings.Contains(c.Use, " ") && c.Example == "" {
		blocks = append(blocks, strings.TrimSuffix(c.UseLine(), " [flags]"))
	}
	own := pflag.NewFlagSet("own", pflag.ContinueOnError)
	flagsOf(c).VisitAll(func(f *pflag.Flag) {
		if p.homes[flagKey(f)] == nil {
			own.AddFlag(f)
		}
	})
	for _, v := range below {
		flagsOf(v).VisitAll(func(f *pflag.Flag) {
			if p.homes[flagKey(f)] == c && own.Lookup(f.Name) == nil {
				own.AddFlag(f)
			}
		})
	}
	if own.HasAvailableFlags() {
		blocks = append(blocks, own.FlagUsages())
	}
	for i, b := range blocks {
		blocks[i] = block(b)
	}
	if common := p.common(c); len(common) > 0 {
		blocks = append(blocks, "Each of its verbs has "+strings.Join(common, ", ")+".\n")
	}
	also := p.others(c)
	if c.Parent().HasParent() {
		of := p.common(c.Parent())
		also = slices.DeleteFunc(also, func(name string) bool { return slices.Contains(of, name) })
	}
	if serves(c) {
		blocks = append(blocks, "Flags: see [configuration](configuration.md).\n")
	} else if len(also) > 0 {
		blocks = append(blocks, "Also "+strings.Join(also, ", ")+".\n")
	}
	p.WriteString(strings.Join(blocks, "\n"))
	for _, v := range below {
		p.section(v)
	}
}

// others returns the names of the flags of a command that stand under "Flags of several verbs".
func (p *helpPage) others(c *cobra.Command) (names []string) {
	flagsOf(c).VisitAll(func(f *pflag.Flag) {
		if home := p.homes[flagKey(f)]; home != nil && !home.HasParent() {
			names = append(names, "`--"+f.Name+"`")
		}
	})
	return names
}

// common returns the names among others that all commands below one have.
func (p *helpPage) common(c *cobra.Command) (names []string) {
	for i, v := range documented(c) {
		if others := p.others(v); i == 0 {
			names = others
		} else {
			names = slices.DeleteFunc(names, func(name string) bool { return !slices.Contains(others, name) })
		}
	}
	return names
}

// paragraphs returns the beginning of a command's text: the help and the pages of the subjects have the rest.
func paragraphs(c *cobra.Command) []string {
	list := strings.Split(strings.Trim(c.Long, "\n"), "\n\n")
	if list[0] == c.Short+"." && len(list) > 1 {
		list = list[1:]
	}
	return list[:1]
}

// examples returns the lines of a command's examples. Words with the command's name in them become NAME in what several
// commands share.
func examples(c *cobra.Command) (lines []string) {
	for line := range strings.SplitSeq(strings.Trim(c.Example, "\n"), "\n") {
		lines = append(lines, strings.TrimPrefix(line, "  "))
	}
	return lines
}

var word = regexp.MustCompile(`\S+`)

func anyName(c *cobra.Command, text string) string {
	return word.ReplaceAllStringFunc(text, func(w string) string {
		switch {
		case w == c.Name():
			return "NAME"
		case strings.HasPrefix(w, c.Name()+"/"):
			return "NAME/STEP"
		}
		return w
	})
}

// sharedTexts returns the texts that several of the commands have.
func sharedTexts(list []*cobra.Command, of func(*cobra.Command) []string) (texts []string) {
	count := map[string]int{}
	for _, c := range list {
		for _, t := range of(c) {
			t = anyName(c, t)
			if count[t]++; count[t] == sharedBy && t != "" {
				texts = append(texts, t)
			}
		}
	}
	return texts
}

// ownTexts returns the texts of a command that its group does not have.
func ownTexts(c *cobra.Command, of func(*cobra.Command) []string) []string {
	shared := append(sharedTexts(documented(c.Parent()), of), of(c.Parent())...)
	return slices.DeleteFunc(of(c), func(t string) bool { return t == "" || slices.Contains(shared, anyName(c, t)) })
}

// block makes text a code block, whose lines may be of any length.
func block(text string) string {
	return "```\n" + strings.Trim(text, "\n") + "\n```\n"
}
