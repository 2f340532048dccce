package extent

import (
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// A node whose extents were lost or deleted gives no later extent the id of one of them: other nodes may still have
// copies of those.
func TestIDsOfANodeAreNotUsedAgain(t *testing.T) {
	t.Parallel()
	clock := time.Now()
	used := map[uint64]bool{}
	for range 3 { // each time with an empty folder
		s := open(t, t.TempDir(), Options{Mirrored: true, SealSize: 1000})
		s.now = func() time.Time { return clock }
		check.OK(t, s.Mirror(alone{}, 7))
		for i := range uint64(30) {
			x := store(t, s, random(i, 2000))[0]
			if used[x.Extent] || OwnerOf(x.Extent) != 7 {
				t.Fatalf("extent %x is used again, or has owner %d", x.Extent, OwnerOf(x.Extent))
			}
			used[x.Extent] = true
		}
		clock = clock.Add(time.Second)
	}
}

// alone is the Mirror of a node that has no others.
type alone struct{}

func (alone) Begin() MirrorWriter                { return aloneWriter{} }
func (alone) Fetch(Slice) (int64, []byte, error) { return 0, nil, ErrNotFound }
func (alone) Healed(Slice)                       {}

type aloneWriter struct{}

func (aloneWriter) Add(Slice, []byte, bool) error { return nil }
func (aloneWriter) Commit() error                 { return nil }
func (aloneWriter) Close()                        {}
