package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// target is a package to mutate, and the tests that are to notice.
type target struct {
	folder string
	// tests are the folders whose tests are run, in this order, until one fails.
	tests []string
	// slow are the tests that are run only for mutants that all others let survive.
	slow string
}

var targets = []target{
	{"internal/state/table", []string{"internal/state/table", "tablesvc", "internal/server/fsck"},
		"Linearizable|Model|" + damage},
	{"internal/state/queue", []string{"internal/state/queue", "queuesvc", "internal/server/fsck"},
		"PowerFailure|TestEachCallOnADiskFails|Model|FullDisk|Killed|" + damage},
	{"internal/state/blob", []string{"internal/state/blob", "blobsvc", "internal/server/fsck"},
		"RepairTreeAfterAnyLoss|Model|Linearizable|" + damage},
	{"internal/state/blob/tree", []string{"internal/state/blob", "blobsvc", "internal/server/fsck"},
		"RepairTreeAfterAnyLoss|Model|Linearizable|" + damage},
	{"internal/state/blob/listing", []string{"internal/state/blob", "blobsvc", "internal/server/fsck"},
		"RepairTreeAfterAnyLoss|Model|Linearizable|" + damage},
	{"internal/state/blob/maintain", []string{"internal/state/blob/maintain", "internal/state/blob", "blobsvc",
		"internal/server/fsck"},
		"RepairTreeAfterAnyLoss|Model|Linearizable|" + damage},
	{"internal/state/blob/replica", []string{"internal/state/blob/replica", "internal/state/blob", "blobsvc",
		"internal/server/fsck"},
		"RepairTreeAfterAnyLoss|Model|Linearizable|" + damage},
	{"internal/storage/store", []string{"internal/storage/store", "internal/state/table", "internal/state/queue"},
		"CrashImages|EveryDamage|FlippedBits|Histor|Direct|TransactionsAgainstModel|FailingDisk|FullDisk|PowerFailure"},
	{"internal/storage/extent", []string{"internal/storage/extent"},
		"CrashImages|CrashAgainst|DamageIsNeverRead|EachCall"},
}

// damage are the slow tests of fsck.
const damage = "Corruption|WholeFiles|PairsOfFiles|Trees"

func main() {
	n := flag.Int("n", 40, "mutants of each package")
	seed := flag.Uint64("seed", 1, "what the sample is drawn with")
	only := flag.String("only", "", "the folder of one package")
	operator := flag.String("operator", "", "the name of one operator")
	list := flag.Bool("list", false, "print the mutants and run nothing")
	syncs := flag.String("syncs", "", "in place of all else, remove the syncs of the rows of syncs.md that fit this pattern")
	flag.Parse()
	log.SetFlags(0)
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
	caught, all := 0, 0
	for _, t := range targets {
		if *only != "" && t.folder != *only {
			continue
		}
		c, a, err := t.run(drawing{n: *n, seed: *seed, operator: *operator}, *list)
		if err != nil {
			log.Fatal(err)
		}
		caught, all = caught+c, all+a
	}
	if all > 0 {
		fmt.Printf("%d of %d mutants are caught, %.0f %%\n", caught, all, 100*float64(caught)/float64(all))
	}
}

// run mutates one package, and returns how many mutants were caught of how many.
func (t *target) run(d drawing, list bool) (caught, all int, err error) {
	p, err := load(t.folder)
	if err != nil {
		return 0, 0, err
	}
	sample := d.sample(p.sources)
	if list {
		for _, m := range sample {
			fmt.Printf("%s\n    %s\n", m.name(), m.text)
		}
		return 0, 0, nil
	}
	folder, err := os.MkdirTemp("", "mutations")
	if err != nil {
		return 0, 0, err
	}
	defer os.RemoveAll(folder)
	file, err := overlay(folder, []*loaded{p}, sample)
	if err != nil {
		return 0, 0, err
	}
	rigs := make([]rig, len(t.tests))
	for i, tests := range t.tests {
		rigs[i] = rig{limit: time.Hour, folder: tests, binary: filepath.Join(folder, fmt.Sprintf("tests%d", i)), slow: t.slow,
			reached: filepath.Join(folder, "reached")}
		if err := rigs[i].build(file); err != nil {
			return 0, 0, err
		}
		// Tests that fail by themselves would catch every mutant.
		var limit time.Duration
		for _, slow := range []bool{false, true} {
			began := time.Now()
			if out, failed := rigs[i].fails(0, slow); failed {
				return 0, 0, fmt.Errorf("%s fails without a mutant:\n%s", tests, out)
			}
			limit = max(limit, 20*time.Second+3*time.Since(began))
		}
		rigs[i].limit = limit
	}
	fmt.Printf("%s, %d mutants, seed %d:\n", t.folder, len(sample), d.seed)
	for i, m := range sample {
		by := killer(rigs, i+1)
		if by != "" {
			caught++
		} else if _, err := os.Stat(rigs[0].reached); err != nil {
			by = "SURVIVED, no test comes to it"
		} else {
			by = "SURVIVED"
		}
		fmt.Printf("%3d %-40s %s\n    %s\n", i+1, by, m.name(), m.text)
		// The file says that the mutated place was run; the next mutant begins without it.
		_ = os.Remove(rigs[0].reached)
	}
	fmt.Printf("%s: %d of %d are caught\n\n", t.folder, caught, len(sample))
	return caught, len(sample), nil
}

// drawing says which mutants of a package are run.
type drawing struct {
	n        int
	seed     uint64
	operator string // of all if it is empty
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

// rig runs the tests of one folder, compiled with the mutants.
type rig struct {
	folder, binary, slow, reached string
	// limit is how long the tests may take with a mutant: some let them wait without an end.
	limit time.Duration
}

func (r *rig) build(overlay string) error {
	build := exec.Command("go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", r.binary, "./"+r.folder)
	out, err := build.CombinedOutput()
	if err != nil {
		return fmt.Errorf("go test -c %s: %w\n%s", r.folder, err, out)
	}
	return nil
}

// killer returns the tests that notice a mutant, or nothing: fast ones first.
func killer(rigs []rig, number int) string {
	for _, slow := range []bool{false, true} {
		for i := range rigs {
			out, failed := rigs[i].fails(number, slow)
			if !failed {
				continue
			}
			for line := range strings.Lines(out) {
				if name, ok := strings.CutPrefix(strings.TrimSpace(line), "--- FAIL: "); ok {
					name, _, _ = strings.Cut(name, " ")
					return "by " + name
				}
			}
			return "by the end of the tests of " + filepath.Base(rigs[i].folder)
		}
	}
	return ""
}

// fails reports whether the tests fail, or do not end, with a mutant, and what they print.
func (r *rig) fails(number int, slow bool) (string, bool) {
	ctx, cancel := context.WithTimeout(context.Background(), r.limit+time.Minute)
	defer cancel()
	choice := "-test.skip=" + r.slow
	if slow {
		choice = "-test.run=" + r.slow
	}
	tests := exec.CommandContext(ctx, r.binary, choice, "-test.short", "-test.failfast", "-test.timeout="+r.limit.String())
	tests.Dir = r.folder
	tests.Env = append(os.Environ(), fmt.Sprint("LAZULI_MUTANT=", number), "LAZULI_MUTANT_REACHED="+r.reached)
	tests.WaitDelay = time.Second
	out, err := tests.CombinedOutput()
	return string(out), err != nil
}
