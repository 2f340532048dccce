package main

import (
	"os"
	"regexp"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/test/testlog"
)

// The short form of `lazuli demo archive --kill-nodes`: one round, on a cluster of processes. It runs only with
// LAZULI_TEST_KILL_NODES: in one of three runs the demonstration reported work that was stuck, see docs/cluster.md.
func TestDemoOnAClusterWhoseNodesAreKilled(t *testing.T) {
	t.Parallel()
	if os.Getenv("LAZULI_TEST_KILL_NODES") == "" {
		t.Skip("LAZULI_TEST_KILL_NODES is not set")
	}
	var out, errs testlog.Buffer
	m := Main{Args: []string{"demo", "archive", "--kill-nodes", "--records", "150", "--fault", "archive/after-copy",
		"--seed", "3"}, Stdout: &out, Stderr: &errs}
	if code := m.Run(t.Context()); code != exitOK {
		t.Fatalf("ended with %d: %s\n%s", code, out.String(), errs.String())
	}
	if text := out.String(); !regexp.MustCompile(
		`Every record is in exactly one table.*\nNodes of the cluster were killed [1-9]`).MatchString(text) {
		t.Errorf("got %s", text)
	}
}
