package fsck

import (
	"fmt"
	"hash/fnv"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	testcheck "github.com/lazuli-storage/lazuli/internal/test/check"
)

// TestWholeFiles damages each kind of file of a data folder as a whole: removed, emptied, cut at boundaries and
// between them, swapped with its neighbour, replaced by an older copy, and with a flipped bit; of a folder whose
// server was stopped in order, and of one whose server was killed. The server must refuse to start, or answer an error
// for what is lost, or serve everything as it was; fsck must find what it does not serve, and after its repair the
// server must start. LAZULI_MATRIX=all is the long form: every cut, a repair in each case, and several files of the
// queues' log. The short form repairs the databases, and a sample of the others. Without LAZULI_TEST_FULL it has half
// of the damages of each file, each in one of the two folders; the next file has the other half.
func TestWholeFiles(t *testing.T) {
	t.Parallel()
	long := os.Getenv("LAZULI_MATRIX") == "all"
	c := makeCorpus(t, false, long)
	for number, state := range []struct{ name, folder, older string }{
		{"stopped", c.stopped, c.stoppedBefore}, {"killed", c.killed, c.killedBefore},
		{"killed, copies of the last stop", c.killed, c.stoppedBefore},
	} {
		t.Run(state.name, func(t *testing.T) {
			t.Parallel()
			image, older := imageOf(t, state.folder), imageOf(t, state.older)
			want := answers(t, image.write(t))
			for k, v := range want {
				if strings.HasPrefix(v, "error") {
					t.Fatalf("%s answers %s without damage", k, v)
				}
			}
			if want == nil {
				t.Fatal("the folder is refused without damage")
			}
			outcomes := map[string]map[string]int{"queues/": {}}
			without := maps.Clone(image)
			maps.DeleteFunc(without, func(name string, _ fileImage) bool { return strings.HasPrefix(name, "queues") })
			outcomes["queues/"][judge(t, without, "queues, removed", want, true)]++
			files := slices.DeleteFunc(slices.Sorted(maps.Keys(image)), func(name string) bool {
				return name == "LOCK" || name == "RESERVE" || strings.HasPrefix(name, "queues/") &&
					(strings.HasSuffix(name, "index.db") || strings.Contains(name, "/obs/"))
			})
			for i, file := range files {
				damages := image.damages(file, files[(i+1)%len(files)], older, long)
				if strings.Contains(state.name, "copies") {
					damages = image.damages(file, "", older, false)
					damages = map[string]folderImage{"older": damages["older"]}
				}
				kind := file
				if strings.HasPrefix(file, "extents/0") {
					kind = "extents/*" + file[strings.LastIndex(file, "."):]
				}
				if strings.HasSuffix(file, ".blk") {
					kind = "queues/*.blk"
				}
				if outcomes[kind] == nil {
					outcomes[kind] = map[string]int{}
				}
				for n, name := range slices.Sorted(maps.Keys(damages)) {
					if every := testcheck.Size(4, 1); (n+i+2*number)%every != 0 && !long && name != "older" {
						continue // another file has this damage, or this file in the folder of the other state
					}
					if damages[name] != nil {
						repair := long || strings.HasSuffix(file, ".db") || strings.HasSuffix(file, ".db-log1")
						outcomes[kind][judge(t, damages[name], file+", "+name, want, repair)]++
					}
				}
			}
			for _, kind := range slices.Sorted(maps.Keys(outcomes)) {
				t.Logf("%s: %v", kind, outcomes[kind])
			}
		})
	}
}

// damages returns images with one damage to a file, by the names of the damages.
func (image folderImage) damages(file, neighbour string, older folderImage, long bool) map[string]folderImage {
	f := image[file]
	all := map[string]folderImage{}
	with := func(name string, change func(folderImage)) {
		damaged := maps.Clone(image)
		change(damaged)
		all[name] = damaged
	}
	cut := func(n int64) {
		if n >= 0 && n < f.size {
			with(fmt.Sprintf("cut to %d of %d", n, f.size),
				func(d folderImage) { d[file] = fileImage{f.used[:min(n, int64(len(f.used)))], n} })
		}
	}
	with("removed", func(d folderImage) { delete(d, file) })
	cut(0)
	sizes := []int64{int64(len(f.used)) / 2, f.size - 1}
	if strings.HasSuffix(file, ".db") { // without the pages that refer to all others
		sizes = append(sizes, 12288, int64(len(f.used)))
	}
	if long {
		sizes = append(sizes, 1, 32, 512, 4096, 8192, 12288, 16384, int64(len(f.used)), int64(len(f.used))-1, f.size-4096,
			f.size/2)
	}
	for _, n := range sizes {
		cut(n)
	}
	if neighbour != "" {
		with("swapped with "+neighbour, func(d folderImage) { d[file], d[neighbour] = d[neighbour], d[file] })
	}
	if old, ok := older[file]; ok && string(old.used) != string(f.used) {
		with("older", func(d folderImage) { d[file] = old })
	}
	if n := len(f.used); n > 0 {
		with("flipped", func(d folderImage) {
			p := slices.Clone(f.used)
			p[n/2] ^= 4
			d[file] = fileImage{p, f.size}
		})
	}
	return all
}

// TestPairsOfFiles damages two files at a time: each pair of kinds of files, with each pair of damages, and the two
// swapped; older copies are of the last stop, and of an earlier moment of the same run. A database and what it has
// beside it count as one more kind each, so that an older database without its log is one damage. LAZULI_MATRIX=pairs
// is all of them, some 8,000 cases; the short form is a sample, with each damage of a single kind.
func TestPairsOfFiles(t *testing.T) {
	t.Parallel()
	all := os.Getenv("LAZULI_MATRIX") == "pairs"
	c := makeCorpus(t, false, false)
	for number, state := range []struct {
		name, folder string
		older        map[string]string
	}{
		{"stopped", c.stopped, map[string]string{"older": c.stoppedBefore}},
		{"killed", c.killed, map[string]string{"older": c.stoppedBefore, "older of the run": c.killedBefore}},
	} {
		t.Run(state.name, func(t *testing.T) {
			t.Parallel()
			image, older := imageOf(t, state.folder), map[string]folderImage{}
			for name, folder := range state.older {
				older[name] = imageOf(t, folder)
			}
			want := answers(t, image.write(t))
			// One damage is a change of an image, which may have another damage already.
			units := image.units()
			damages := map[string]map[string]func(folderImage){}
			for unit, files := range units {
				damages[unit] = image.changes(files, older)
			}
			var (
				cases    = map[string]folderImage{}
				singles  []string
				names    = slices.Sorted(maps.Keys(units))
				outcomes = map[string]int{}
			)
			for i, a := range names {
				for one, change := range damages[a] {
					damaged := maps.Clone(image)
					change(damaged)
					cases[a+" "+one] = damaged
					singles = append(singles, a+" "+one)
					for _, b := range names[i+1:] {
						if slices.Contains(units[a], units[b][0]) || slices.Contains(units[b], units[a][0]) {
							continue // a file, and the unit that it is a part of
						}
						for two, second := range damages[b] {
							damaged := maps.Clone(damaged)
							second(damaged)
							cases[a+" "+one+", "+b+" "+two] = damaged
						}
					}
				}
			}
			for n, name := range slices.Sorted(maps.Keys(cases)) {
				// Without LAZULI_TEST_FULL, each folder has every second one of the damages of a single kind.
				single := slices.Contains(singles, name) && len(units[strings.Fields(name)[0]]) > 1 &&
					(n+number)%testcheck.Size(2, 1) == 0
				// A copy of a database, its log and its mark that was taken while the process ran is complete in itself: only one
				// of its other two marks says that there was more.
				live := strings.Contains(name, "-and-log older of the run") && strings.Contains(strings.ToLower(name), "mark") &&
					!strings.HasPrefix(name, "queues")
				// After a repair of both, new messages must not leave a gap in the log.
				numbered := state.name == "stopped" && strings.HasPrefix(name, "queues.db-and-log ") &&
					strings.Contains(name, "queues/*.blk")
				if all || single || live || numbered || n%(len(cases)/testcheck.Size(8, 60)) == 0 {
					outcomes[judge(t, cases[name], name, want, numbered)]++
				}
			}
			t.Logf("of %d cases: %v", len(cases), outcomes)
		})
	}
}

// units returns the files that are damaged together, by the name of their kind: one of each kind, and each database
// with its log and mark.
func (image folderImage) units() map[string][]string {
	units := map[string][]string{}
	for _, file := range slices.Sorted(maps.Keys(image)) {
		if file == "LOCK" || file == "RESERVE" || strings.HasSuffix(file, "index.db") || strings.Contains(file, "/obs/") {
			continue
		}
		kind := file
		switch {
		case strings.HasPrefix(file, "extents/0"):
			kind = "extents/*" + file[strings.LastIndex(file, "."):]
		case strings.HasPrefix(file, "queues/"):
			kind = "queues/*" + file[strings.LastIndex(file, "."):]
			units["queues/"] = append(units["queues/"], file)
		}
		units[kind] = []string{file} // the last one: the newest extent
		if base, _, _ := strings.Cut(file, "-"); strings.HasSuffix(base, ".db") {
			units[base+"-and-log"] = append(units[base+"-and-log"], file)
		}
		if strings.HasPrefix(file, "extents/") {
			units["extents/"] = append(units["extents/"], file)
		}
	}
	return units
}

// changes returns the damages of files that are damaged together, by their names. older are the images whose files may
// replace them. A file that an older image lacks is removed, as when a copy of the others is put back.
func (image folderImage) changes(files []string, older map[string]folderImage) map[string]func(folderImage) {
	each := func(change func(fileImage) fileImage) func(folderImage) {
		return func(d folderImage) {
			for _, file := range files {
				if f, ok := d[file]; ok {
					d[file] = change(f)
				}
			}
		}
	}
	all := map[string]func(folderImage){
		"removed": func(d folderImage) {
			maps.DeleteFunc(d, func(name string, _ fileImage) bool { return slices.Contains(files, name) })
		},
		"emptied": each(func(fileImage) fileImage { return fileImage{} }),
		"cut": each(func(f fileImage) fileImage {
			n := int64(len(f.used)) / 2
			return fileImage{f.used[:n], n}
		}),
		"flipped": each(func(f fileImage) fileImage {
			p := slices.Clone(f.used)
			if len(p) > 0 {
				p[len(p)/2] ^= 4
			}
			return fileImage{p, f.size}
		}),
	}
	for name, from := range older {
		same := true
		for _, file := range files {
			f, ok := from[file]
			same = same && ok && string(f.used) == string(image[file].used)
			if !ok && len(files) == 1 {
				same = true // removed
			}
		}
		if !same {
			all[name] = func(d folderImage) {
				for _, file := range files {
					if f, ok := from[file]; ok {
						d[file] = f
					} else {
						delete(d, file)
					}
				}
			}
		}
	}
	return all
}

// judge returns what becomes of a damaged folder.
func judge(t *testing.T, damaged folderImage, name string, want map[string]string, repair bool) string {
	t.Helper()
	got := answers(t, damaged.write(t))
	dir := damaged.write(t)
	r, err := Check(t.Context(), dir, Options{})
	if err := os.RemoveAll(filepath.Dir(dir)); err != nil { // thousands of folders would fill the memory
		t.Error(err)
	}
	found := err != nil || !r.Clean
	outcome := "without loss"
	for _, k := range slices.Sorted(maps.Keys(want)) {
		switch {
		case got == nil:
			outcome = "refused"
		case got[k] == want[k]:
		case strings.HasPrefix(got[k], "error"):
			outcome = "reported"
		default:
			t.Errorf("%s: SILENT LOSS: %s is served as %.60q, and was %.60q", name, k, got[k], want[k])
			return "silent loss"
		}
	}
	if outcome != "without loss" && !found {
		t.Errorf("%s: %s, and fsck finds nothing", name, outcome)
	}
	sum := fnv.New32()
	_, _ = sum.Write([]byte(name))
	if outcome != "refused" || !repair && sum.Sum32()%4 != 0 {
		return outcome
	}
	dir = damaged.write(t)
	r, err = Check(t.Context(), dir, Options{Repair: true})
	if err != nil {
		t.Errorf("%s: repair: %v", name, err)
		return outcome
	}
	after := answers(t, dir)
	if after == nil {
		t.Errorf("%s: refused after a repair: %v", name, r.Findings)
		return outcome
	}
	if !r.Clean && !strings.Contains(name, "extents/") { // content that is damaged stays so
		t.Errorf("%s: not clean after a repair: %v", name, r.Findings)
	}
	for _, k := range slices.Sorted(maps.Keys(want)) {
		if after[k] != want[k] && len(r.Lost) == 0 && r.Clean {
			t.Errorf("%s: after a repair that lost nothing, %s is %.60q, and was %.60q", name, k, after[k], want[k])
			break
		}
	}
	return outcome
}
