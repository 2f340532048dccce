package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/help"
	"github.com/lazuli-storage/lazuli/internal/server/config"
	"github.com/lazuli-storage/lazuli/internal/test/prose"
)

//go:generate go test . -run TestCommandPageIsCurrent -update

var update = flag.Bool("update", false, "rewrite docs/cli.md")

// docs/cli.md holds, between two marks, every verb with its line of help and its flags. Flags that several verbs share
// stand there once, those of serve in docs/configuration.md. Paragraphs and examples stand in the help alone.
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
	want := head + begin + prose.Wrap(newHelpPage(root).String()) + end + tail
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if string(text) != want {
		t.Errorf("%s is not current: run go generate ./cmd/lazuli", page)
	}
}

// The numbers of verbs that share a flag from which on the page has it once: verbs of one group, and any verbs.
const sharedInGroup, sharedInAll = 2, 3

// helpPage is the part of the page that is generated.
type helpPage struct {
	strings.Builder
	homes map[string]*cobra.Command // the command that has a flag which several verbs share, by flagKey
}

func flagKey(f *pflag.Flag) string { return fmt.Sprint(f.Name, f.Shorthand, f.DefValue, f.Usage) }

func newHelpPage(root *cobra.Command) *helpPage {
	p := &helpPage{homes: map[string]*cobra.Command{}}
	holders := map[string][]*cobra.Command{}
	shared := pflag.NewFlagSet("shared", pflag.ContinueOnError)
	options := pflag.NewFlagSet("options of the server", pflag.ContinueOnError)
	config.AddFlags(options, slices.Concat(config.RoleOptions(), config.DurableOptions())...)
	options.AddFlagSet(root.Flags())
	var visit func(c *cobra.Command)
	visit = func(parent *cobra.Command) {
		for _, c := range documented(parent) {
			flagsOf(c).VisitAll(func(f *pflag.Flag) {
				key := flagKey(f)
				list := append(holders[key], c)
				holders[key] = list
				if o := options.Lookup(f.Name); o != nil && flagKey(o) == key && len(list) < sharedInAll {
					p.homes[key] = root // docs/configuration.md has it
					return
				}
				inGroup := !slices.ContainsFunc(list, func(c *cobra.Command) bool { return c.Parent() != parent })
				if inGroup && parent != root {
					if len(list) >= sharedInGroup {
						p.homes[key] = parent
					}
					return
				}
				if len(list) < sharedInAll {
					delete(p.homes, key)
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
	fmt.Fprintf(p, "\n## Flags of several verbs\n\n```\n%s```\n", shared.FlagUsages())
	for _, c := range documented(root) {
		p.section(c)
	}
	p.WriteByte('\n')
	return p
}

// documented returns the commands below one that the page has.
func documented(parent *cobra.Command) []*cobra.Command {
	return slices.DeleteFunc(slices.Clone(parent.Commands()), func(c *cobra.Command) bool {
		return c.Hidden || c.Name() == "help" || c.Name() == "completion"
	})
}

// elsewhere are the pages that have the flags of a command.
var elsewhere = map[string]string{"lazuli fault create": "faults.md"}

// flagsOf returns the flags that the page has of a command.
func flagsOf(c *cobra.Command) *pflag.FlagSet {
	if help.Serves(c) || elsewhere[c.CommandPath()] != "" {
		return pflag.NewFlagSet("none", pflag.ContinueOnError)
	}
	return c.LocalFlags()
}

// section writes a verb and those below it.
func (p *helpPage) section(c *cobra.Command) {
	fmt.Fprintf(p, "\n## %s\n\n%s.", c.CommandPath(), c.Short)
	if help.Serves(c) {
		p.WriteString(" Its flags: [configuration](configuration.md).")
	}
	for _, v := range documented(c) {
		if page := elsewhere[v.CommandPath()]; page != "" {
			fmt.Fprintf(p, " The flags of `%s`: [%s](%s).", v.Name(), strings.TrimSuffix(page, ".md"), page)
		}
	}
	p.WriteByte('\n')
	var lines strings.Builder
	if strings.Contains(c.Use, " ") {
		fmt.Fprintln(&lines, usage(c))
	}
	own := p.ownFlags(c)
	for _, v := range documented(c) { // the flags that several of its verbs share
		flagsOf(v).VisitAll(func(f *pflag.Flag) {
			if p.homes[flagKey(f)] == c && own.Lookup(f.Name) == nil {
				own.AddFlag(f)
			}
		})
	}
	lines.WriteString(own.FlagUsages())
	p.below(&lines, c)
	if lines.Len() > 0 {
		fmt.Fprintf(p, "\n```\n%s```\n", lines.String())
	}
}

// below writes the verbs below a command, each with its flags.
func (p *helpPage) below(to *strings.Builder, c *cobra.Command) {
	list := documented(c)
	width := 0
	for _, v := range list {
		width = max(width, len(usage(v)))
	}
	for _, v := range list {
		fmt.Fprintf(to, "%-*s  %s\n%s", width, usage(v), v.Short, p.ownFlags(v).FlagUsages())
		p.below(to, v)
	}
}

// usage returns the words of a command without "lazuli".
func usage(c *cobra.Command) string {
	return strings.TrimSuffix(strings.TrimPrefix(c.UseLine(), c.Root().Name()+" "), " [flags]")
}

// ownFlags returns the flags of a command that no other section has.
func (p *helpPage) ownFlags(c *cobra.Command) *pflag.FlagSet {
	own := pflag.NewFlagSet("own", pflag.ContinueOnError)
	flagsOf(c).VisitAll(func(f *pflag.Flag) {
		if p.homes[flagKey(f)] == nil {
			own.AddFlag(f)
		}
	})
	return own
}
