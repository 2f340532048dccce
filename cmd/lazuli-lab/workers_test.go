package main

import (
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/cmd/internal/bench"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// The short form of `lazuli-lab bench workers` handles everything and has a row for each kind of work.
func TestBenchWorkers(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("runs a server")
	}
	program, err := build()
	check.OK(t, err)
	var out strings.Builder
	cmd := newRootCommand(&lab{program: program})
	cmd.SetOut(&out)
	cmd.SetArgs([]string{"bench", "workers", "--jobs", "50", "--delayed", "40", "--wakes", "3", "--workflows", "4",
		"--sleeping", "5", "--entities", "20", "--temp-dir", t.TempDir()})
	check.OK(t, cmd.ExecuteContext(t.Context()))
	for _, row := range []string{"put by azqueue", "put, 32", "handle 50", "idle",
		"40 delayed", "chain of 3", "fan-out of 10",
		"5 workflows", "signal 18"} {
		if !strings.Contains(out.String(), row) {
			t.Errorf("the table lacks %q:\n%s", row, out.String())
		}
	}
	cmd.SetArgs([]string{"bench", "workers", "--jobs", "0"})
	if err := cmd.ExecuteContext(t.Context()); err == nil {
		t.Error("no jobs are accepted")
	} else if _, ok := err.(bench.SettingsError); !ok {
		t.Errorf("%v, want a settings error", err)
	}
}
