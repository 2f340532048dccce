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
)

// rig runs the tests of one folder, compiled with the mutants.
type rig struct {
	folder, binary, reached string
	pattern                 string // of the names of tests that are run
	short                   bool   // leave out what the tests leave out with -short
	flags                   []string

	// took is how long each test takes alone, and reach has the tests that come to the place of a mutant.
	took  map[string]time.Duration
	reach map[int][]string
}

// quick is how long a test takes that is run before the others.
const quick = 500 * time.Millisecond

// learn runs each test alone, without a mutant, and notes to which mutants it comes. A mutant then needs these tests
// alone. A test that fails by itself would catch every mutant.
func (r *rig) learn() error {
	r.took, r.reach = map[string]time.Duration{}, map[int][]string{}
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
		began := time.Now()
		if out, failed := r.run(learning, 10*time.Minute, test); failed {
			return fmt.Errorf("%s of %s fails without a mutant:\n%s", test, r.folder, out)
		}
		r.took[test] = time.Since(began)
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
			r.reach[n] = append(r.reach[n], test)
		}
		_ = os.Remove(r.reached)
	}
	return nil
}

// killer returns the test that notices a mutant, or nothing: fast ones first.
func killer(rigs []*rig, number int) string {
	for _, fast := range []bool{true, false} {
		for _, r := range rigs {
			tests := slices.DeleteFunc(slices.Clone(r.reach[number]), func(test string) bool {
				return (r.took[test] < quick) != fast
			})
			if by := r.notices(number, tests); by != "" {
				return by
			}
		}
	}
	return ""
}

// notices returns the test of some that fails, or does not end, with a mutant.
func (r *rig) notices(number int, tests []string) string {
	slices.SortFunc(tests, func(a, b string) int { return int(r.took[a] - r.took[b]) })
	// The first ones notice most mutants.
	for _, some := range [][]string{tests[:min(5, len(tests))], tests[min(5, len(tests)):]} {
		if len(some) == 0 {
			continue
		}
		limit := 15 * time.Second
		for _, test := range some {
			limit += 4 * r.took[test]
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
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	return string(out), err != nil
}
