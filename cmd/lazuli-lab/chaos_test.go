package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/cmd/internal/bench"
	"github.com/lazuli-storage/lazuli/cmd/lazuli-lab/internal/chaos"
	"github.com/lazuli-storage/lazuli/internal/killrig"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// folder has the program that the tests run.
var folder string

func TestMain(m *testing.M) {
	check.FilesInMemory()
	var err error
	if folder, err = os.MkdirTemp("", "lazuli-lab-test"); err != nil {
		panic(err)
	}
	check.MoreParallel(6) // most tests wait, for elections and servers that start
	code := m.Run()
	_ = os.RemoveAll(folder)
	os.Exit(code)
}

var build = sync.OnceValues(func() (string, error) { return killrig.Build(folder) })

// chaosConfig is that of a short run.
func chaosConfig(t *testing.T) chaos.Config {
	t.Helper()
	if testing.Short() {
		t.Skip("kills servers for some seconds")
	}
	program, err := build()
	if err != nil {
		t.Fatal(err)
	}
	command, err := (&lab{program: program}).command()
	if err != nil {
		t.Fatal(err)
	}
	return chaos.Config{
		Command: command,
		Folder:  t.TempDir(), Rounds: 5, Seed: 12, Clients: 1, MaxLoad: 400 * time.Millisecond, Progress: t.Output(),
	}
}

// The short form of `lazuli-lab chaos --damage`.
func TestChaos(t *testing.T) {
	t.Parallel()
	c := chaosConfig(t)
	c.Damage, c.FsckEvery = 2, 3
	report, err := chaos.Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if !report.OK() {
		_ = report.WriteText(t.Output())
		t.Error("the server broke a promise")
	}
	if report.Rounds != 5 || report.Kills == 0 || report.Checks != 5 || report.Fscks != 2 || report.Steps == 0 ||
		report.Writes == 0 || report.Damage.Aimed == 0 {
		t.Errorf("the run left out what it is for: %+v", report)
	}
}

// The short form of `lazuli-lab chaos --tier`.
func TestChaosTier(t *testing.T) {
	t.Parallel()
	for try := range 4 {
		c := chaosConfig(t)
		c.Rounds, c.FsckEvery, c.Tier = 3*(try+1), 2, true
		report, err := chaos.Run(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		_ = report.WriteText(t.Output())
		if !report.OK() || report.Tier == nil || report.Tier.Unneeded > 0 {
			t.Fatalf("the server broke a promise, or had no tier: %+v", report)
		}
		if report.Tier.Objects > 0 {
			return
		}
		// A busy machine writes too little in these rounds for an object.
	}
	t.Error("the object store has got nothing")
}

// The short form of `lazuli-lab chaos --nodes 3`.
func TestChaosNodes(t *testing.T) {
	t.Parallel()
	c := chaosConfig(t)
	report, err := chaos.RunNodes(t.Context(),
		chaos.NodesConfig{Command: c.Command, Folder: c.Folder, Nodes: 3, Limit: time.Hour, Faults: 5, Seed: 12, Clients: 1,
			Think: 60 * time.Millisecond,
			Kinds: []string{"killed", "slow", "bit flipped", "disk full", "power lost"}, MaxFault: 2 * time.Second,
			Progress: c.Progress})
	if err != nil {
		t.Fatal(err)
	}
	_ = report.WriteText(t.Output())
	if !report.OK() {
		t.Error("the cluster broke a promise")
	}
	if len(report.Faults) < 3 || report.Replaced > report.Faults["bit flipped"] || report.Puts == 0 ||
		report.Deletes == 0 || report.Histories < 4 {
		t.Errorf("the run left out what it is for: %+v", report)
	}
}

// A server that starts on an older state of its folder is found out. The server itself refuses a part of the
// folder that is older than the rest. That all of it is older only the record of the acknowledged operations can
// tell.
func TestChaosFindsRollback(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		part     string
		files    []string // patterns of what is put back
		findings []string
	}{
		{"tables", []string{"tables.db*"}, []string{"tables.db is an older copy"}},
		{"blobs", []string{"blobs.db*", "extents"}, []string{"blobs.db is an older copy"}},
		{"queues", []string{"queues", "queues.db*"}, []string{"queues.db is an older copy"}},
		{"folder", []string{"*"}, []string{"table: ", "blob: ", "queue: "}},
	} {
		t.Run(tt.part, func(t *testing.T) {
			t.Parallel()
			c := chaosConfig(t)
			start, starts, old := c.Command, 0, t.TempDir()
			c.Command = func(args ...string) *exec.Cmd {
				if args[0] == "serve" {
					starts++
					rollBack(t, starts, args[2], filepath.Join(old, "data"), tt.files)
				}
				return start(args...)
			}
			report, err := chaos.Run(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			text := ""
			for _, f := range report.Findings {
				text += f.Error() + "\n"
			}
			for _, want := range tt.findings {
				if report.OK() || !strings.Contains(text, want) {
					t.Errorf("%s went back to an older state: got %q, want a finding %q", tt.part, text, want)
				}
			}
			if len(report.Kept) != 1 {
				t.Errorf("%q are kept", report.Kept)
			}
		})
	}
}

// rollBack copies a folder before the second start, and puts files of the copy back before the fourth.
func rollBack(t *testing.T, start int, folder, old string, patterns []string) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}
	switch start {
	case 2:
		must(os.CopyFS(old, os.DirFS(folder)))
	case 4:
		for _, pattern := range patterns {
			now, err := filepath.Glob(filepath.Join(folder, pattern))
			must(err)
			for _, name := range now {
				must(os.RemoveAll(name))
			}
			before, err := filepath.Glob(filepath.Join(old, pattern))
			must(err)
			for _, name := range before {
				must(os.Rename(name, filepath.Join(folder, filepath.Base(name))))
			}
		}
	}
}

func TestChaosMistakes(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"--minutes", "0"}, {"--clients", "0"}, {"--rounds", "-1"},
		{"--damage", "--damaged-copies", "0"}} {
		root := newRootCommand(&lab{program: "none"})
		root.SetArgs(append([]string{"chaos"}, args...))
		if err := root.ExecuteContext(t.Context()); !errors.As(err, new(bench.SettingsError)) {
			t.Errorf("%q: error %v", args, err)
		}
	}
}
