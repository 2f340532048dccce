package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

//go:generate go test . -run TestCommandPageIsCurrent -update

var update = flag.Bool("update", false, "rewrite docs/cli.md")

// docs/cli.md holds every verb's help between two marks. The flags of serve stand in docs/configuration.md.
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
	var b strings.Builder
	describe(&b, newRootCommand(&Main{Stdout: &bytes.Buffer{}, Stderr: &bytes.Buffer{}}))
	want := head + begin + b.String() + end + tail
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if string(text) != want {
		t.Errorf("%s is not current: run go generate ./cmd/lazuli", page)
	}
}

func describe(b *strings.Builder, parent *cobra.Command) {
	for _, c := range parent.Commands() {
		if c.Hidden || c.Name() == "help" || c.Name() == "completion" {
			continue
		}
		fmt.Fprintf(b, "\n## %s\n\n%s.\n", c.CommandPath(), c.Short)
		if c.Long != "" {
			fmt.Fprintf(b, "\n%s\n", block(c.Long))
		}
		if c.Example != "" {
			fmt.Fprintf(b, "\n%s\n", block(strings.ReplaceAll("\n"+c.Example, "\n  ", "\n")))
		}
		switch flags := strings.TrimRight(c.LocalFlags().FlagUsages(), "\n"); {
		case c.Flags().Lookup("shutdown-timeout") != nil && !c.Flags().Lookup("shutdown-timeout").Hidden:
			b.WriteString("\nFlags: see [configuration](configuration.md).\n")
		case flags != "":
			fmt.Fprintf(b, "\n%s\n", block(flags))
		}
		describe(b, c)
	}
	if !parent.HasParent() {
		b.WriteByte('\n')
	}
}

// block makes text a code block, whose lines may be of any length.
func block(text string) string {
	return "```\n" + strings.Trim(text, "\n") + "\n```"
}
