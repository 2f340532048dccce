package simulate

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/test/overlay"
)

// Planted is a fault that a simulation must find: a file of the package under test has New in place of Old, which
// stands there once. The fault is on while planted(Name) in New returns true. Seed is the first that finds it: the
// search begins there, and takes as long as from the start where a change of the code has made it another one.
type Planted struct {
	Name, File, Old, New string
	Seed                 uint64
}

// PlantedFaults builds the tests of the package in the current folder with all faults planted, and runs them once for
// each, with only that one on. keep reports whether a file of tests is needed for that. The sources stay as they are:
// the compiler reads the files with the faults in their place.
//
// Each run must fail. run has the arguments of the tests.
func PlantedFaults(t *testing.T, faults []Planted, keep func(file string) bool, run ...string) {
	t.Helper()
	tests := build(t, faults, keep)
	for _, f := range faults {
		t.Run(f.Name, func(t *testing.T) {
			arguments := append(slices.Clone(run), fmt.Sprint("-sim.first=", max(f.Seed, 1)))
			cmd := exec.CommandContext(t.Context(), tests, arguments...)
			cmd.Env = append(os.Environ(), "LAZULI_PLANTED="+f.Name)
			out, err := cmd.CombinedOutput()
			first, _, _ := strings.Cut(string(out[max(0, bytes.Index(out, []byte("seed "))):]), "\n")
			t.Log(first)
			if err == nil || !strings.HasPrefix(first, "seed ") {
				t.Errorf("the simulation has not found it: %v\n%s", err, out)
			}
		})
	}
}

// build returns the program of the tests.
func build(t *testing.T, faults []Planted, keep func(file string) bool) string {
	t.Helper()
	dir, texts := t.TempDir(), map[string]string{}
	for _, f := range faults {
		if texts[f.File] == "" {
			text, err := os.ReadFile(f.File)
			if err != nil {
				t.Fatal(err)
			}
			texts[f.File] = string(text)
		}
		if n := strings.Count(texts[f.File], f.Old); n != 1 {
			t.Fatalf("%s: the place of the fault stands %d times in %s: %s", f.Name, n, f.File, f.Old)
		}
		if want := fmt.Sprintf("planted(%q)", f.Name); !strings.Contains(f.New, want) {
			t.Fatalf("%s: the fault does not ask for %s", f.Name, want)
		}
		texts[f.File] = strings.Replace(texts[f.File], f.Old, f.New, 1)
	}
	o := overlay.New(dir)
	tests, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range tests { // without the others, the program is built in a third of the time
		if !keep(file) {
			if err := o.Omit(file); err != nil {
				t.Fatal(err)
			}
		}
	}
	texts["planted.go"] = "package " + packageOf(t) + `

import "os"

var plantedName = os.Getenv("LAZULI_PLANTED")

func planted(name string) bool { return plantedName == name }
`
	for file, text := range texts {
		if err := o.Place(file, text); err != nil {
			t.Fatal(err)
		}
	}
	program := filepath.Join(dir, "planted.test")
	if err := o.BuildTests(".", program); err != nil {
		t.Fatalf("building the tests with the faults: %v", err)
	}
	return program
}

// packageOf returns the name of the package in the current folder, which is that of the folder.
func packageOf(t *testing.T) string {
	t.Helper()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Base(here)
}
