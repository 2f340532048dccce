package extent

import (
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/faultdisk"
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

// A record that is replaced while the last sync of its extent runs is synced before the file is closed.
func TestPutDuringTheLastSync(t *testing.T) {
	t.Parallel()
	fsys := &faultdisk.FS{}
	s := open(t, t.TempDir(), Options{FS: fsys, SealSize: 1000})
	x := store(t, s, random(1, 500))[0]
	offset, record, err := s.Record(x)
	check.OK(t, err)
	syncs := 0
	fsys.SetHook(func(op faultdisk.Op) error {
		if op.Kind != faultdisk.Sync || !strings.HasSuffix(op.Name, openSuffix) {
			return nil
		}
		if syncs++; syncs == 1 {
			return s.Put(x.Extent, offset, record)
		}
		return nil
	})
	w := s.NewWriter(-1) // its content awaits the last sync
	defer w.Close()
	check.Must(w.Write(random(2, 800)))(t)
	check.OK(t, w.flush(true))
	store(t, s, random(3, 800)) // in the next extent
	s.sealing.Wait()
	before := syncs
	check.OK(t, s.SyncAllPuts())
	if fsys.SetHook(nil); before < 1 || s.extents[x.Extent].putsSynced != 1 || s.extents[x.Extent].file != nil {
		t.Errorf("%d syncs before, %d puts synced, file %v", before, s.extents[x.Extent].putsSynced, s.extents[x.Extent].file)
	}
}

// A damaged record is replaced while its extent takes appends; the race detector sees whether they agree on its size.
func TestPutDuringAppends(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), Options{Relaxed: true})
	x := store(t, s, random(1, 500))[0]
	offset, record, err := s.Record(x)
	check.OK(t, err)
	var ended atomic.Bool
	var putting sync.WaitGroup
	putting.Go(func() {
		for !ended.Load() {
			if err := s.Put(x.Extent, offset, record); err != nil {
				t.Error(err)
			}
		}
	})
	for i := range uint64(2000) {
		store(t, s, random(i, 500))
	}
	ended.Store(true)
	putting.Wait()
	check.OK(t, s.SyncPuts(x.Extent))
}

// An extent that is deleted while all puts are synced needs no sync.
func TestDeletedDuringSyncAllPuts(t *testing.T) {
	t.Parallel()
	fsys := &faultdisk.FS{}
	s := open(t, t.TempDir(), Options{FS: fsys, Mirrored: true, SealSize: 1000})
	check.OK(t, s.Mirror(alone{}, 7))
	from := open(t, t.TempDir(), Options{Mirrored: true, SealSize: 1000})
	check.OK(t, from.Mirror(alone{}, 8))
	other := map[uint64]uint64{} // of each of the two extents
	var ids []uint64
	for i := range uint64(2) {
		x := store(t, from, random(i, 2000))[0]
		offset, record, err := from.Record(x)
		check.OK(t, errors.Join(err, s.Put(x.Extent, offset, record)))
		ids = append(ids, x.Extent)
	}
	other[ids[0]], other[ids[1]] = ids[1], ids[0]
	removed := 0
	fsys.SetHook(func(op faultdisk.Op) error {
		for id := range other {
			if op.Kind == faultdisk.Sync && removed == 0 && filepath.Base(op.Name) == filepath.Base(s.path(id, copySuffix)) {
				removed++
				gone, err := s.remove(s.extents[other[id]])
				if !gone {
					t.Error("the other extent was not deleted")
				}
				return err
			}
		}
		return nil
	})
	check.OK(t, s.SyncAllPuts())
	if fsys.SetHook(nil); removed != 1 {
		t.Errorf("%d extents were deleted meanwhile", removed)
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
