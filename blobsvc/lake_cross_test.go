package blobsvc_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Renames that cross each other, and recursive deletes beside them, leave a tree in which every file is where one of
// them has put it: a directory never becomes its own ancestor, and nothing is in two places. The end of the test checks
// the state.
func TestLakeCrossing(t *testing.T) {
	t.Parallel()
	f := lake(t)
	fs := f.filesystem("files")
	dirs := []string{"a", "b", "c", "a/x", "b/y", "c/z"}
	const marked = 6
	for i, d := range dirs {
		writeFile(t, fs, fmt.Sprintf("%s/mark%d", d, i), "")
	}
	var wait sync.WaitGroup
	for worker := range 4 {
		wait.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(worker), 1))
			for i := range 400 {
				from, to := dirs[rnd.IntN(len(dirs))], dirs[rnd.IntN(len(dirs))]+fmt.Sprintf("/n%d_%d", worker, i)
				switch rnd.IntN(4) {
				case 0: // what is created here is deleted here, wherever it is by then
					own := fmt.Sprintf("%s/own%d_%d", from, worker, i)
					if r := f.lakeDo("PUT", "/files/"+own+"/f?resource=file", ""); r.status >= 500 {
						t.Errorf("create: %d %s", r.status, r.body)
					}
					if r := f.lakeDo("DELETE", "/files/"+own+"?recursive=true", ""); r.status >= 500 {
						t.Errorf("delete: %d %s", r.status, r.body)
					}
				case 1: // back to its first place
					if r := f.lakeDo("PUT", "/files/"+from, "", "x-ms-rename-source", "/files/"+to); r.status >= 500 {
						t.Errorf("rename: %d %s", r.status, r.body)
					}
				default:
					if r := f.lakeDo("PUT", "/files/"+to, "", "x-ms-rename-source", "/files/"+from); r.status >= 500 {
						t.Errorf("rename: %d %s", r.status, r.body)
					}
				}
				if i%50 == 0 {
					f.clean()
				}
			}
		})
	}
	wait.Wait()
	f.clean()
	var found []string
	for _, p := range paths(t, fs, true, nil) {
		if i := strings.LastIndex(p, "/mark"); i >= 0 {
			found = append(found, p[i+1:])
		}
	}
	slices.Sort(found)
	if len(found) != marked || len(slices.Compact(found)) != marked {
		t.Errorf("%d marked files, want %d: %q", len(found), marked, found)
	}
}
