package extent

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// noTier is a tier that is never asked.
type noTier struct{ Tier }

func (noTier) Sealed()                     {}
func (noTier) Removed(uint64)              {}
func (noTier) Forget(uint64, int64, int64) {}

// An extent that is noted as one of the tier as soon as it is finished stays one in the manifest: the file may go.
func TestRemoteAsSoonAsFinished(t *testing.T) {
	t.Parallel()
	s := open(t, check.MemoryDir(t), Options{SealSize: 1, Tier: noTier{}})
	defer closeChecked(t, s)
	var noting sync.WaitGroup
	var ended atomic.Bool
	for range 2 {
		noting.Go(func() {
			for !ended.Load() {
				for _, x := range s.Stats() {
					if x.Finished && x.Sum == "" {
						check.OK(t, s.SetRemote(x.ID, "sum"))
					}
				}
			}
		})
	}
	for range 400 {
		store(t, s, []byte("content"))
	}
	s.sealing.Wait()
	ended.Store(true)
	noting.Wait()
	list, _, err := verify(s.dir)
	check.OK(t, err)
	for _, x := range s.Stats() {
		if at := list.Extents[idText(x.ID)]; x.Sum != "" && at.Sum != x.Sum {
			t.Errorf("the manifest has extent %x as %+v", x.ID, at)
		}
	}
}
