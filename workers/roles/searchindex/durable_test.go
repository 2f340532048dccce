package searchindex_test

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/test/crashimage"
	"github.com/lazuli-storage/lazuli/workers/follow"
)

// A segment that is damaged has another name before bleve opens the index, and the checksums of the last orderly end
// are gone: neither comes back by a power failure.
func TestADamagedSegmentDoesNotComeBack(t *testing.T) {
	t.Parallel()
	r := crashimage.OfTest(t, func(dir string) {
		x, err := openPower(dir)
		ok(t, err)
		f := x.Follower()
		ok(t, f.Restart(t.Context(), follow.Progress{Reading: true, Position: "0"}))
		ok(t, f.Apply(t.Context(), nil, follow.Progress{Position: "0"}))
		for step := range 3 {
			ok(t, f.Apply(t.Context(), powerChanges(step+1), follow.Progress{Position: strconv.Itoa(step + 1)}))
		}
		ok(t, x.Close())
		segments, err := filepath.Glob(filepath.Join(dir, "generation-*", "store"))
		if err != nil || len(segments) != 1 {
			t.Fatal(segments, err)
		}
		ok(t, os.WriteFile(filepath.Join(segments[0], "0000000000ff.zap"), []byte("the beginning of a segment"), 0o600))
		crashimage.Prepared(t, dir)
		_, err = openPower(dir) // and not closed, which writes checksums again
		ok(t, err)
	})
	r.Order(t, "rename generation-*/store/0000000000ff.zap", "sync generation-*/store", "remove generation-*/sums.json",
		"sync generation-*")
}

// A new index is on disk before the state names it, with the names of its files.
func TestANewIndexIsSynced(t *testing.T) {
	t.Parallel()
	r := crashimage.OfTest(t, func(dir string) {
		x, err := openPower(dir) // and not closed, which syncs more
		ok(t, err)
		ok(t, x.Follower().Restart(t.Context(), follow.Progress{Reading: true, Position: "0"}))
	})
	r.Order(t, "write generation-*/index_meta.json", "sync generation-*/index_meta.json", "sync generation-*")
	r.Order(t, "mkdir generation-*/store", "sync generation-*/store")
}
