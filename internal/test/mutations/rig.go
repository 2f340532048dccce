package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/internal/test/overlay"
)

// rig runs the tests of one folder, compiled with the mutants.
type rig struct {
	folder, binary, reached string
	pattern                 string // of the names of tests that are run
	short                   bool   // leave out what the tests leave out with -short
	overlay                 *overlay.Overlay
	until                   time.Time

	ready bool
	flags []string
	learned
}

// learned is what is known of tests once each has run alone, without a mutant.
type learned struct {
	Took  map[string]time.Duration // of the tests that have run, how long they take alone
	Reach map[int][]string         // the tests that come to the place of a mutant
}

// quick is how long a test takes that is run before the others.
const quick = 500 * time.Millisecond

// prepare builds the program, unless a run before has left it, and learns what is not known yet.
func (r *rig) prepare() error {
	if r.ready {
		return nil
	}
	if _, err := os.Stat(r.binary); errors.Is(err, fs.ErrNotExist) {
		// The name comes last: a run that is stopped while it builds leaves no half of a program to a later one.
		err := r.overlay.BuildTests(r.folder, r.binary+".new")
		if err == nil {
			err = os.Rename(r.binary+".new", r.binary)
		}
		if err != nil {
			return err
		}
	}
	if err := readJSON(r.binary+".json", &r.learned); err != nil {
		return err
	}
	if r.Took == nil {
		r.learned = learned{Took: map[string]time.Duration{}, Reach: map[int][]string{}}
	}
	if err := r.learn(); err != nil {
		return err
	}
	r.ready = true
	return nil
}

// learn runs each test alone, without a mutant, and notes to which mutants it comes. A mutant then needs these tests
// alone. A test that fails by itself would catch every mutant.
func (r *rig) learn() error {
	// Tests with pgregory.net/rapid would keep what has failed with a mutant in testdata, and repeat it later.
	const noFile = "-rapid.nofailfile"
	tried := exec.Command(r.binary, noFile, "-test.list=^$")
	tried.Dir = r.folder
	if tried.Run() == nil {
		r.flags = append(r.flags, noFile)
	}
	list := exec.Command(r.binary, "-test.list="+r.pattern)
	list.Dir = r.folder
	names, err := list.Output()
	if err != nil {
		return fmt.Errorf("the tests of %s: %w", r.folder, err)
	}
	for _, test := range strings.Fields(string(names)) {
		if _, known := r.Took[test]; known {
			continue
		}
		if over(r.until) {
			return errLater
		}
		// A test whose run was stopped may have left a list.
		_ = os.Remove(r.reached)
		began := time.Now()
		if out, failed := r.run(learning, 10*time.Minute, test); failed {
			return fmt.Errorf("%s of %s fails without a mutant:\n%s", test, r.folder, out)
		}
		r.Took[test] = time.Since(began)
		found, err := os.ReadFile(r.reached)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		numbers := strings.Fields(string(found))
		slices.Sort(numbers)
		for _, text := range slices.Compact(numbers) {
			n, err := strconv.Atoi(text)
			if err != nil {
				return err
			}
			r.Reach[n] = append(r.Reach[n], test)
		}
		if err := writeJSON(r.binary+".json", r.learned); err != nil {
			return err
		}
	}
	return nil
}

// killer returns the test that notices a mutant, or nothing: those of the first folder first, of each the fast ones.
// The tests of a folder are built for the first mutant that those before it do not notice.
func killer(rigs []*rig, number int) (string, error) {
	for _, r := range rigs {
		if err := r.prepare(); err != nil {
			return "", err
		}
		// Most mutants are noticed in milliseconds, and a slow test may take as long as all the fast ones.
		for _, fast := range []bool{true, false} {
			if over(r.until) {
				return "", errLater
			}
			tests := slices.DeleteFunc(slices.Clone(r.Reach[number]), func(test string) bool {
				return (r.Took[test] < quick) != fast
			})
			if by := r.notices(number, tests); by != "" {
				return by, nil
			}
		}
	}
	return "", nil
}

// notices returns the test of some that fails, or does not end, with a mutant.
func (r *rig) notices(number int, tests []string) string {
	slices.SortFunc(tests, func(a, b string) int { return int(r.Took[a] - r.Took[b]) })
	// The first ones notice most mutants.
	for _, some := range [][]string{tests[:min(5, len(tests))], tests[min(5, len(tests)):]} {
		if len(some) == 0 {
			continue
		}
		// A mutant that waits without an end is noticed by that; other work on the machine may slow a test down.
		limit := 15 * time.Second
		for _, test := range some {
			limit += 4 * r.Took[test]
		}
		out, failed := r.run(number, limit, some...)
		if !failed {
			continue
		}
		for line := range strings.Lines(out) {
			if name, ok := strings.CutPrefix(strings.TrimSpace(line), "--- FAIL: "); ok {
				name, _, _ = strings.Cut(name, " ")
				return "by " + name
			}
		}
		return "by the end of the tests of " + filepath.Base(r.folder)
	}
	return ""
}

// learning is the number with which tests note all mutants to which they come.
const learning = -1

// run runs some tests, which have names without special characters, with a mutant. It reports what they print, and
// whether they fail or do not end.
func (r *rig) run(number int, limit time.Duration, tests ...string) (string, bool) {
	ctx, cancel := context.WithTimeout(context.Background(), limit+time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, r.binary, append(r.flags, "-test.run=^("+strings.Join(tests, "|")+")$",
		"-test.failfast", fmt.Sprint("-test.short=", r.short), "-test.timeout="+limit.String())...)
	cmd.Dir = r.folder
	cmd.Env = append(os.Environ(), fmt.Sprint("LAZULI_MUTANT=", number), "LAZULI_MUTANT_REACHED="+r.reached)
	// Processes that the tests have started may hold the output open.
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	return string(out), err != nil
}
