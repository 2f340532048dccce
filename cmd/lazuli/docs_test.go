package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

//go:generate go test . -run TestCommandPageIsCurrent -update

var update = flag.Bool("update", false, "rewrite docs/cli.md")

// docs/cli.md holds every verb's help between two marks, with flags that several verbs share once. The flags of serve
// stand in docs/configuration.md.
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
	var b strings.Builder
	shared := sharedFlags(root)
	fmt.Fprintf(&b, "\n## Flags of several verbs\n\n%s\n", block(strings.TrimRight(shared.FlagUsages(), "\n")))
	describe(&b, root, shared)
	want := head + begin + b.String() + end + tail
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if string(text) != want {
		t.Errorf("%s is not current: run go generate ./cmd/lazuli", page)
	}
}

// documented reports whether a command has a section of its own.
func documented(c *cobra.Command) bool {
	return !c.Hidden && c.Name() != "help" && c.Name() != "completion"
}

// sharedBy is the number of verbs that share a flag, with its text, from which on the page has it once.
const sharedBy = 3

// sharedFlags returns the flags that several verbs have.
func sharedFlags(root *cobra.Command) *pflag.FlagSet {
	verbs := map[string]int{} // by flag
	shared := pflag.NewFlagSet("shared", pflag.ContinueOnError)
	var visit func(c *cobra.Command)
	visit = func(parent *cobra.Command) {
		for _, c := range parent.Commands() {
			if !documented(c) {
				continue
			}
			c.LocalFlags().VisitAll(func(f *pflag.Flag) {
				key := fmt.Sprint(f.Name, f.Shorthand, f.DefValue, f.Usage)
				if verbs[key]++; verbs[key] == sharedBy && !serves(c) && !f.Hidden && shared.Lookup(f.Name) == nil {
					shared.AddFlag(f)
				}
			})
			visit(c)
		}
	}
	visit(root)
	return shared
}

// usages returns a block with the flags of a verb that are its own, and a line with the names of those that others
// share.
func usages(c *cobra.Command, shared *pflag.FlagSet) (own, others string) {
	flags := pflag.NewFlagSet("own", pflag.ContinueOnError)
	var names []string
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if g := shared.Lookup(f.Name); g != nil && g.Usage == f.Usage && g.DefValue == f.DefValue &&
			g.Shorthand == f.Shorthand {
			names = append(names, "`--"+f.Name+"`")
			return
		}
		flags.AddFlag(f)
	})
	return strings.TrimRight(flags.FlagUsages(), "\n"), strings.Join(names, ", ")
}

func describe(b *strings.Builder, parent *cobra.Command, shared *pflag.FlagSet) {
	for _, c := range parent.Commands() {
		if !documented(c) {
			continue
		}
		fmt.Fprintf(b, "\n## %s\n\n%s.\n", c.CommandPath(), c.Short)
		if c.Long != "" {
			fmt.Fprintf(b, "\n%s\n", block(c.Long))
		}
		if c.Example != "" {
			fmt.Fprintf(b, "\n%s\n", block(strings.ReplaceAll("\n"+c.Example, "\n  ", "\n")))
		}
		if serves(c) {
			b.WriteString("\nFlags: see [configuration](configuration.md).\n")
		} else {
			own, others := usages(c, shared)
			if own != "" {
				fmt.Fprintf(b, "\n%s\n", block(own))
			}
			if others != "" {
				fmt.Fprintf(b, "\nAlso %s; see [flags of several verbs](#flags-of-several-verbs).\n", others)
			}
		}
		describe(b, c, shared)
	}
	if !parent.HasParent() {
		b.WriteByte('\n')
	}
}

// block makes text a code block, whose lines may be of any length.
func block(text string) string {
	return "```\n" + strings.Trim(text, "\n") + "\n```"
}
