package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/help"
)

// The help of the program is one screen with all verbs.
func TestRootHelp(t *testing.T) {
	var out bytes.Buffer
	m := &Main{Args: []string{"--help"}, Stdout: &out, Stderr: &out}
	if code := m.Run(t.Context()); code != exitOK {
		t.Fatalf("exit code %d", code)
	}
	if lines := strings.Count(out.String(), "\n"); lines > 62 {
		t.Errorf("%d lines", lines)
	}
	var grouped []string
	for _, g := range help.VerbGroups {
		grouped = append(grouped, g.Verbs...)
	}
	for _, verb := range newRootCommand(m).Commands() {
		if !verb.Hidden && !slices.Contains(grouped, verb.Name()) {
			t.Errorf("%s is in no group", verb.Name())
		}
	}
	for _, name := range append(grouped, help.MainFlags...) {
		if !strings.Contains(out.String(), name) {
			t.Errorf("%s is missing", name)
		}
	}
}

// A word that is no verb is a usage error at every level.
func TestUnknownVerbs(t *testing.T) {
	var parents [][]string
	var visit func(c *cobra.Command, path []string)
	visit = func(c *cobra.Command, path []string) {
		if c.HasSubCommands() && !help.Places(c) {
			parents = append(parents, path)
		}
		for _, sub := range c.Commands() {
			visit(sub, append(slices.Clone(path), sub.Name()))
		}
	}
	visit(newRootCommand(&Main{}), nil)
	for _, path := range parents {
		var out bytes.Buffer
		m := &Main{Args: append(slices.Clone(path), "nosuch"), Stdout: &out, Stderr: &out}
		if code := m.Run(t.Context()); code != exitUsage || !strings.Contains(out.String(), `unknown command "nosuch"`) {
			t.Errorf("%v nosuch: exit code %d, %s", path, code, &out)
		}
	}
}

// A misspelt verb is named also if a flag follows, which the parent does not have; list is ls.
func TestUnknownVerbBeforeFlag(t *testing.T) {
	for _, parent := range []string{"fault", "event", "queue", "table", "blob", "account"} {
		var out bytes.Buffer
		m := &Main{Args: []string{parent, "lst", "--json"}, Stdout: &out, Stderr: &out}
		if code := m.Run(t.Context()); code != exitUsage || !strings.Contains(out.String(), `unknown command "lst"`) {
			t.Errorf("%s lst --json: exit code %d, %s", parent, code, &out)
		}
		cmd, _, err := newRootCommand(m).Find([]string{parent, "list"})
		if err != nil || cmd.Name() != "ls" {
			t.Errorf("%s list: %v, %v", parent, cmd.Name(), err)
		}
	}
}
