package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo"
)

// With --json, a demonstration prints one object with what its table has, also when it fails.
func TestDemoJSON(t *testing.T) {
	t.Parallel()
	var report struct {
		Name   string
		Passed bool
		Report struct {
			Seed   string
			Rounds []struct {
				Killed []struct {
					Step                      string
					Hit, Done, Lost, Messages int
				}
				Items, OK, Lost int
				Complete        bool
			}
			Problems []string
		}
	}
	run := func(args ...string) int {
		var out, errs bytes.Buffer
		m := Main{Args: append([]string{"demo", "compound-key", "--fault=compound-key/after-term", "--records=12",
			"--seed=18446744073709551615", "--json", "--quiet"}, args...), Stdout: &out, Stderr: &errs}
		code := m.Run(t.Context())
		d := json.NewDecoder(&out)
		if err := d.Decode(&report); err != nil || d.More() {
			t.Fatalf("%v, more %v; %s", err, d.More(), &errs)
		}
		return code
	}
	code := run()
	rounds := report.Report.Rounds
	if code != exitOK || !report.Passed || report.Name != "compound-key" || report.Report.Seed != "18446744073709551615" ||
		len(report.Report.Problems) != 0 || len(rounds) != 1 || len(rounds[0].Killed) != 1 ||
		rounds[0].Killed[0].Step != "compound-key/after-term" || rounds[0].Killed[0].Hit == 0 || !rounds[0].Complete ||
		rounds[0].Items != 12 || rounds[0].OK != 12 || rounds[0].Lost != 0 {
		t.Errorf("ended with %d: %+v", code, report)
	}
	code = run("--patience=1ms")
	if code == exitOK || report.Passed {
		t.Errorf("without time ended with %d: %+v", code, report)
	}
}

// The numbers and names of patterns are those of their demonstrations, of their programs, and of the rows of
// docs/patterns.md.
func TestNumbersOfPatterns(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/patterns.md")
	if err != nil {
		t.Fatal(err)
	}
	verbs := map[string]bool{}
	for _, verb := range newDemoCommand().Commands() {
		if !verb.Hidden && verb.Name() != "all" && verb.Name() != "ls" {
			verbs[verb.Name()] = true
		}
	}
	programs, err := filepath.Glob("../../examples/patterns/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range demo.Names {
		if !verbs[name] {
			t.Errorf("pattern %d has no demonstration %s", i+1, name)
		}
		row := fmt.Sprintf("\n| %02d | ", i+1)
		_, rest, ok := strings.Cut(string(page), row)
		line, _, _ := strings.Cut(rest, "\n")
		folder := fmt.Sprintf("%02d-%s", i+1, name)
		switch {
		case !ok || !strings.Contains(line, "`lazuli demo "+name+"`"):
			t.Errorf("the page has no row %q with `lazuli demo %s`", strings.TrimSpace(row), name)
		case i < len(programs) && (filepath.Base(programs[i]) != folder || !strings.Contains(line, "["+folder+"](")):
			t.Errorf("the program %s is not %s, or the page does not link it: %s", programs[i], folder, line)
		}
	}
	if len(verbs) != len(demo.Names) || len(programs) != 16 {
		t.Errorf("%d demonstrations, want %d; %d programs, want 16", len(verbs), len(demo.Names), len(programs))
	}
}
