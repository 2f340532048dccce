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

// A wrong argument is answered with what is wrong with it, a missing one with its name.
func TestWrongArguments(t *testing.T) {
	for line, says := range map[string]string{
		"jobs show nosuch":    `"nosuch" is not the ID of a job, which is QUEUE.LETTERS`,
		"jobs cancel nosuch":  `"nosuch" is not the ID of a job, which is QUEUE.LETTERS`,
		"jobs cancel":         "missing argument: JOB; usage: lazuli jobs cancel JOB ...",
		"table create":        "missing argument: TABLE; usage",
		"queue put q":         "missing argument: BODY; usage",
		"health now":          `"now" is not expected; usage`,
		"blob cp a/b c/d e/f": "3 arguments were given; usage",
	} {
		var out bytes.Buffer
		m := &Main{Args: strings.Fields(line), Stdout: &out, Stderr: &out}
		if code := m.Run(t.Context()); code != exitUsage || !strings.Contains(out.String(), says) {
			t.Errorf("%s: exit code %d, %s", line, code, &out)
		}
	}
}

// An argument that is "" is a usage error, before anything is done: a script whose variable is not set must not mean
// the working directory. Content, keys and prefixes can be empty.
func TestEmptyArguments(t *testing.T) {
	seen := 0
	var visit func(c *cobra.Command, path []string)
	visit = func(c *cobra.Command, path []string) {
		for _, sub := range c.Commands() {
			visit(sub, append(slices.Clone(path), sub.Name()))
		}
		words := strings.Fields(c.Use)[1:]
		if c.HasSubCommands() && !help.Places(c) || len(words) == 0 || strings.Contains(words[0], "PREFIX") ||
			words[0] == "[TEXT]" || words[0] == "TEXT" || strings.HasPrefix(words[0], "-") {
			return
		}
		seen++
		for n := 1; n <= len(words); n++ { // as many as the verb takes
			args := slices.Repeat([]string{"x"}, n)
			args[0] = ""
			var out bytes.Buffer
			m := &Main{Args: append(slices.Clone(path), args...), Stdout: &out, Stderr: &out}
			code := m.Run(t.Context())
			if says := out.String(); code != exitUsage || !strings.Contains(says, "is empty; usage") &&
				!strings.Contains(says, "missing argument") && !strings.Contains(says, "arguments were given") {
				t.Errorf("%v %q: exit code %d, %s", path, args, code, says)
			}
		}
	}
	visit(newRootCommand(&Main{}), nil)
	if seen < 40 {
		t.Errorf("%d verbs with arguments", seen)
	}
	var out bytes.Buffer
	m := &Main{Args: []string{"queue", "put", "q", "", "--connection-string", "no"}, Stdout: &out, Stderr: &out}
	if m.Run(t.Context()); strings.Contains(out.String(), "is empty") {
		t.Errorf("an empty message: %s", &out)
	}
}
