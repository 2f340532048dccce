package searchindex_test

import (
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/workers/follow"
	"github.com/lazuli-storage/lazuli/workers/roles/searchindex"
)

// damageState holds what the index of the tests of damage has: the state after a step.
const damageSteps = 6

// storedIndex makes an index and closes it, and returns its folder.
func storedIndex(t *testing.T) string {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "index")
	x, err := openPower(folder)
	ok(t, err)
	f, ctx := x.Follower(), t.Context()
	ok(t, f.Restart(ctx, follow.Progress{Reading: true, Position: "0"}))
	ok(t, f.Apply(ctx, nil, follow.Progress{Position: "0"}))
	for step := 1; step <= damageSteps; step++ {
		ok(t, f.Apply(ctx, powerChanges(step), follow.Progress{Position: strconv.Itoa(step)}))
	}
	ok(t, x.Close())
	return folder
}

// A bit that is flipped in any file of a stored index costs the index at most: it says that it is not complete and is
// built again, or has an earlier state with its position. It never finds something else, and never ends the process.
func TestDamagedIndexIsBuiltAgain(t *testing.T) {
	t.Parallel()
	stored := storedIndex(t)
	rng := rand.New(rand.NewPCG(5, 5))
	outcomes := map[string]int{}
	ok(t, filepath.WalkDir(stored, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == "LOCK" {
			return err
		}
		name, err := filepath.Rel(stored, path)
		ok(t, err)
		flips := 6
		if d.Name() == "root.bolt" {
			flips = 12
		}
		for range flips {
			folder := filepath.Join(t.TempDir(), "index")
			ok(t, os.CopyFS(folder, os.DirFS(stored)))
			text, err := os.ReadFile(filepath.Join(folder, name))
			ok(t, err)
			if len(text) == 0 {
				return nil
			}
			at := rng.IntN(len(text))
			text[at] ^= 1 << rng.IntN(8)
			ok(t, os.WriteFile(filepath.Join(folder, name), text, 0o600))
			kind := d.Name()
			if strings.HasSuffix(kind, ".zap") {
				kind = "*.zap"
			}
			outcomes[kind+": "+openDamaged(t, folder, name, at)]++
			ok(t, os.RemoveAll(folder))
		}
		return nil
	}))
	t.Log(outcomes)
	segments, err := filepath.Glob(filepath.Join(stored, "generation-*", "store", "*.zap"))
	ok(t, err)
	for _, path := range segments { // bleve may not need one of them
		text, err := os.ReadFile(path)
		ok(t, err)
		text[len(text)/2] ^= 1
		ok(t, os.WriteFile(path, text, 0o600))
	}
	if got := openDamaged(t, stored, "all segments", 0); got != "not complete" && got != "an earlier state" {
		t.Errorf("with damage in all %d segments the index is %s", len(segments), got)
	}
	for _, want := range []string{"root.bolt: not complete", "index_meta.json: not complete"} {
		if outcomes[want] == 0 {
			t.Errorf("no outcome %q in %v", want, outcomes)
		}
	}
}

// openDamaged returns what becomes of a damaged index.
func openDamaged(t *testing.T, folder, name string, at int) string {
	t.Helper()
	x, err := openPower(folder)
	if err != nil {
		return "refused"
	}
	defer func() { ok(t, x.Close()) }()
	r, err := x.Search(t.Context(), searchindex.Query{Size: 2 * powerRows})
	if err != nil {
		return "error at search"
	}
	p, err := x.Follower().Progress(t.Context())
	ok(t, err)
	if !r.Complete {
		return "not complete"
	}
	step, err := strconv.Atoi(p.Position)
	if err != nil || !maps.Equal(wordsOf(r), powerState(step)) {
		t.Errorf("%s, offset %d: position %q, found %v", name, at, p.Position, wordsOf(r))
		return "wrong"
	}
	if step < damageSteps {
		return "an earlier state"
	}
	return "complete"
}

// A segment that was being written when the process was killed, to which nothing refers, does not cost the index.
func TestIncompleteSegmentsCostNothing(t *testing.T) {
	t.Parallel()
	folder := storedIndex(t)
	stores, err := filepath.Glob(filepath.Join(folder, "generation-*", "store"))
	if err != nil || len(stores) != 1 {
		t.Fatal(stores, err)
	}
	ok(t, os.WriteFile(filepath.Join(stores[0], "0000000000ff.zap"), []byte("the beginning of a segment"), 0o600))
	if got := openDamaged(t, folder, "a new segment", 0); got != "complete" {
		t.Errorf("the index is %s", got)
	}
}
