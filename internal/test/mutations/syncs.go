package main

import (
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/internal/test/overlay"
)

// syncsPage has a row for each function that syncs, with the tests that fail without it: each of its syncs is missed by
// one of them.
const syncsPage = "internal/test/lint/syncs.md"

// syncRow is a row that names tests.
type syncRow struct {
	file, function string
	tests          []syncTest
}

// syncTest is a test, and the folder that it is in.
type syncTest struct{ name, folder string }

var (
	rowOfSync   = regexp.MustCompile("(?m)^\\| `([^`]+)` `(\\w+)` \\| [^|]+ \\|([^|]*)\\|$")
	testOfRow   = regexp.MustCompile("`(?:([^`]+)` `)?(Test\\w+)`")
	declaration = regexp.MustCompile(`(?m)^func (Test\w+)\(`)
)

// syncRows reads the rows. A test without a folder is in that of the function, or its name is that of one test only.
func syncRows() (rows []syncRow, err error) {
	page, err := os.ReadFile(syncsPage)
	if err != nil {
		return nil, err
	}
	folders, err := foldersOfTests()
	if err != nil {
		return nil, err
	}
	for _, m := range rowOfSync.FindAllStringSubmatch(string(page), -1) {
		r := syncRow{file: m[1], function: m[2]}
		for _, named := range testOfRow.FindAllStringSubmatch(m[3], -1) {
			test := syncTest{name: named[2], folder: named[1]}
			switch in := folders[test.name]; {
			case test.folder != "":
			case slices.Contains(in, path.Dir(r.file)):
				test.folder = path.Dir(r.file)
			case len(in) == 1:
				test.folder = in[0]
			default:
				return nil, fmt.Errorf("%s: %s is in %q: name the folder", r.file, test.name, in)
			}
			r.tests = append(r.tests, test)
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// foldersOfTests returns the folders that have a test of each name.
func foldersOfTests() (map[string][]string, error) {
	found := map[string][]string{}
	err := filepath.WalkDir(".", func(file string, _ os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(file, "_test.go") {
			return err
		}
		text, err := os.ReadFile(file)
		for _, m := range declaration.FindAllStringSubmatch(string(text), -1) {
			found[m[1]] = append(found[m[1]], filepath.ToSlash(filepath.Dir(file)))
		}
		return err
	})
	return found, err
}

// syncLimit is how long a test of a row may take.
const syncLimit = 5 * time.Minute

// runSyncs removes each sync of the rows that fit only, one at a time, and runs the row's tests, of which one has to
// fail. It returns how many syncs were missed, of how many.
func runSyncs(only *regexp.Regexp) (caught, all int, err error) {
	rows, err := syncRows()
	if err != nil {
		return 0, 0, err
	}
	rows = slices.DeleteFunc(rows, func(r syncRow) bool {
		return len(r.tests) == 0 || !only.MatchString(fmt.Sprint(r.file, " ", r.function, " ", r.tests))
	})
	into, err := os.MkdirTemp("", "mutations")
	if err != nil {
		return 0, 0, err
	}
	defer os.RemoveAll(into)
	o, sample, err := overlaySyncs(into, rows)
	if err != nil {
		return 0, 0, err
	}
	rigs := map[string]*rig{} // by the folder of their tests
	for _, r := range rows {
		for _, test := range r.tests {
			if rigs[test.folder] != nil {
				continue
			}
			rigs[test.folder] = &rig{folder: test.folder, binary: filepath.Join(into, fmt.Sprint("tests", len(rigs)))}
			if err := o.BuildTests(test.folder, rigs[test.folder].binary); err != nil {
				return 0, 0, err
			}
		}
	}
	for _, r := range rows {
		for _, test := range r.tests {
			if out, failed := rigs[test.folder].run(0, syncLimit, test.name); failed {
				return 0, 0, fmt.Errorf("%s of %s fails without a mutant:\n%s", test.name, test.folder, out)
			}
		}
		for i, m := range sample {
			if m.file != r.file || m.function != r.function {
				continue
			}
			all++
			by := r.missedBy(rigs, i+1)
			if by == "" {
				by = "NO TEST"
			} else {
				caught++
			}
			fmt.Printf("%s:%d %s is missed by %s\n", m.file, m.line, m.function, by)
		}
	}
	return caught, all, nil
}

// missedBy returns the test that fails with a mutant, or nothing.
func (r *syncRow) missedBy(rigs map[string]*rig, number int) string {
	for _, test := range r.tests {
		if _, failed := rigs[test.folder].run(number, syncLimit, test.name); failed {
			return test.name
		}
	}
	return ""
}

// overlaySyncs writes the packages of the rows without their syncs, and returns the mutants.
func overlaySyncs(into string, rows []syncRow) (o *overlay.Overlay, sample []*mutant, err error) {
	packages := map[string]*loaded{}
	for _, r := range rows {
		folder := path.Dir(r.file)
		if packages[folder] != nil {
			continue
		}
		p, err := load(folder)
		if err != nil {
			return nil, nil, err
		}
		packages[folder] = p
		for _, s := range p.sources {
			for _, m := range s.operators() {
				if m.operator == dropSync {
					sample = append(sample, m)
				}
			}
		}
	}
	o, err = overlaid(into, slices.Collect(maps.Values(packages)), sample)
	return o, sample, err
}
