package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// target is a package to mutate, and the tests that are to notice.
type target struct {
	folder string
	// tests are the folders whose tests are run, in this order, until one fails.
	tests []string
}

// inBlobs are the tests that use the floors of the state of blobs.
var inBlobs = []string{"internal/state/blob", "blobsvc", "internal/server/fsck"}

var targets = []target{
	{"internal/state/table", []string{"internal/state/table", "tablesvc", "internal/server/fsck"}},
	{"internal/state/queue", []string{"internal/state/queue", "queuesvc", "internal/server/fsck"}},
	{"internal/state/blob", inBlobs},
	{"internal/state/blob/record", append([]string{"internal/state/blob/record"}, inBlobs...)},
	{"internal/state/blob/tree", append([]string{"internal/state/blob/tree"}, inBlobs...)},
	{"internal/state/blob/listing", append([]string{"internal/state/blob/listing"}, inBlobs...)},
	{"internal/state/blob/maintain", append([]string{"internal/state/blob/maintain"}, inBlobs...)},
	{"internal/state/blob/offline", inBlobs},
	{"internal/state/blob/replica", append([]string{"internal/state/blob/replica"}, inBlobs...)},
	{"internal/storage/store", []string{"internal/storage/store", "internal/state/table", "internal/state/queue"}},
	{"internal/storage/extent", []string{"internal/storage/extent"}},
}

func main() {
	n := flag.Int("n", 40, "mutants of each package")
	seed := flag.Uint64("seed", 1, "what the sample is drawn with")
	only := flag.String("only", "", "the folder of one package")
	operator := flag.String("operator", "", "the name of one operator")
	numbers := flag.String("numbers", "", "run only these mutants of the sample, as 3,17")
	tests := flag.String("tests", "", "run only the tests whose names fit a regular expression")
	own := flag.Bool("own", false, "run the first folder of tests alone, which takes a tenth of the time")
	list := flag.Bool("list", false, "print the mutants and run nothing")
	keep := flag.String("keep", "", "a folder for the programs and for what was found, with which a later run of the "+
		"same sources and flags goes on")
	limit := flag.Duration("for", 0, "stop after about this time; another run with the same -keep goes on")
	syncs := flag.String("syncs", "", "remove the syncs of the rows of syncs.md that fit a pattern, and do nothing else")
	flag.Parse()
	log.SetFlags(0)
	// Another kind of run: the rows say which tests notice, so that there is no sample and nothing to learn.
	if *syncs != "" {
		only, err := regexp.Compile(*syncs)
		if err != nil {
			log.Fatal(err)
		}
		caught, all, err := runSyncs(only)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%d of %d syncs are missed by their tests\n", caught, all)
		return
	}
	d := drawing{n: *n, seed: *seed, operator: *operator}
	k := keeping{folder: *keep}
	if *limit > 0 {
		k.until = time.Now().Add(*limit)
	}
	if err := d.choose(*numbers); err != nil {
		log.Fatal(err)
	}
	caught, all := 0, 0
	for _, t := range targets {
		if *only != "" && t.folder != *only {
			continue
		}
		// The first folder of tests is that of the package, or of what its tests are in.
		if *own {
			t.tests = t.tests[:1]
		}
		c, a, err := t.run(d, k, *tests, *list)
		// A status of its own, by which a loop in a shell knows that the run is to be repeated.
		if errors.Is(err, errLater) {
			fmt.Println("The time is over; the same command goes on.")
			os.Exit(3)
		}
		if err != nil {
			log.Fatal(err)
		}
		caught, all = caught+c, all+a
	}
	if all > 0 {
		fmt.Printf("%d of %d mutants are caught, %.0f %%\n", caught, all, 100*float64(caught)/float64(all))
	}
}

// run mutates one package, and returns how many mutants were caught of how many. pattern selects tests.
func (t *target) run(d drawing, k keeping, pattern string, list bool) (caught, all int, err error) {
	p, err := load(t.folder)
	if err != nil {
		return 0, 0, err
	}
	sample := d.sample(p.sources)
	if list {
		for i, m := range sample {
			fmt.Printf("%3d %s\n    %s\n", i+1, m.name(), m.text)
		}
		return 0, 0, nil
	}
	folder, done, err := k.begin(t.folder)
	if err != nil {
		return 0, 0, err
	}
	defer done()
	o, err := overlaid(folder, []*loaded{p}, sample)
	if err != nil {
		return 0, 0, err
	}
	// All binaries have all mutants, so that the tests are compiled once.
	rigs := make([]*rig, len(t.tests))
	for i, tests := range t.tests {
		rigs[i] = &rig{folder: tests, pattern: cmp.Or(pattern, "^Test"), reached: filepath.Join(folder, "reached"),
			binary: filepath.Join(folder, fmt.Sprintf("tests%d", i)), short: true, overlay: o, until: k.until}
	}
	page, err := os.ReadFile(survivorsPage)
	if err != nil {
		return 0, 0, err
	}
	// Only now are the tests built, each when a mutant first needs them: see killer.
	results, err := openResults(filepath.Join(folder, "results.json"))
	if err != nil {
		return 0, 0, err
	}
	fmt.Printf("%s, %d mutants, seed %d:\n", t.folder, len(sample), d.seed)
	for i, m := range sample {
		if len(d.numbers) > 0 && !slices.Contains(d.numbers, i+1) {
			continue
		}
		all++
		found, known := results.of[i+1]
		// What an earlier part of the run has found is printed again, so that the last part prints all.
		if !known {
			if found.By, err = killer(rigs, i+1); err != nil {
				return 0, 0, err
			}
			found.Reached = slices.ContainsFunc(rigs, func(r *rig) bool { return len(r.Reach[i+1]) > 0 })
			if err := results.add(i+1, found); err != nil {
				return 0, 0, err
			}
		}
		by := found.By
		var rows []string
		switch {
		case by != "":
			caught++
		case !found.Reached:
			by, rows = "SURVIVED, no test comes to it", survivorRows(page, m)
		default:
			by, rows = "SURVIVED", survivorRows(page, m)
		}
		fmt.Printf("%3d %-40s %s\n    %s\n", i+1, by, m.name(), m.text)
		for _, row := range rows {
			fmt.Printf("    %s\n", row)
		}
	}
	fmt.Printf("%s: %d of %d are caught\n\n", t.folder, caught, all)
	return caught, all, nil
}

// survivorsPage has a row for each mutant that survived and was looked at, with the reason.
const survivorsPage = "internal/test/mutations/survivors.md"

// survivorRows returns the rows of the page that name the function of a mutant: one of them may be about it.
func survivorRows(page []byte, m *mutant) (rows []string) {
	place := fmt.Sprintf("%s` `%s`", path.Base(m.file), m.function)
	for row := range strings.Lines(string(page)) {
		if strings.Contains(row, path.Dir(m.file)+"/") && strings.Contains(row, place) {
			rows = append(rows, strings.TrimSpace(row))
		}
	}
	return rows
}

// drawing says which mutants of a package are run.
type drawing struct {
	n        int
	seed     uint64
	operator string // of all if it is empty
	numbers  []int  // of the sample, those that are run; all if it is empty
}

// choose sets the numbers that are run, as 3,17; all without any.
func (d *drawing) choose(numbers string) error {
	for text := range strings.FieldsFuncSeq(numbers, func(r rune) bool { return r == ',' }) {
		number, err := strconv.Atoi(text)
		if err != nil {
			return err
		}
		d.numbers = append(d.numbers, number)
	}
	return nil
}

// sample returns n mutants: of all places, and in a tenth of the sample dropped syncs, which are few.
func (d drawing) sample(sources []*source) []*mutant {
	var syncs, others []*mutant
	for _, s := range sources {
		for _, m := range s.operators() {
			switch {
			case d.operator != "" && d.operator != m.operator:
			case d.operator == "" && m.operator == dropSync:
				syncs = append(syncs, m)
			default:
				others = append(others, m)
			}
		}
	}
	// The same seed draws the same places as long as the source stays, whatever the machine.
	rng := rand.New(rand.NewPCG(d.seed, 0))
	pick := func(of []*mutant, n int) (picked []*mutant) {
		for _, i := range rng.Perm(len(of))[:min(n, len(of))] {
			picked = append(picked, of[i])
		}
		return picked
	}
	sample := pick(syncs, d.n/10)
	return append(sample, pick(others, d.n-len(sample))...)
}
