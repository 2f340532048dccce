package extent

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"sync"
	"syscall"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/faultdisk"
)

// heldTier has objects in memory.
type heldTier struct {
	noTier
	mu      sync.Mutex // guards the rest
	objects map[uint64][]byte
	err     error // of each read; nil for none
}

func (h *heldTier) fail(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.err = err
}

// flip changes a byte of an object, or changes it back.
func (h *heldTier) flip(id uint64, at int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.objects[id][at] ^= 1
}

func (h *heldTier) Open(id uint64, _ int64, _ string) io.ReaderAt { return heldObject{h, id} }

type heldObject struct {
	tier *heldTier
	id   uint64
}

func (o heldObject) ReadAt(p []byte, at int64) (int, error) {
	o.tier.mu.Lock()
	defer o.tier.mu.Unlock()
	if o.tier.err != nil {
		return 0, o.tier.err
	}
	return bytes.NewReader(o.tier.objects[o.id]).ReadAt(p, at)
}

// moved stores content in an extent that a tier has, and whose file may go. It returns where the content is.
func (h *heldTier) moved(t *testing.T, s *Store, content []byte) Slice {
	t.Helper()
	x := store(t, s, content)
	store(t, s, []byte("seals the one before"))
	s.sealing.Wait()
	f, size, done, err := s.Local(x[0].Extent)
	check.OK(t, err)
	object := make([]byte, size)
	check.Must(f.ReadAt(object, 0))(t)
	check.OK(t, done())
	h.mu.Lock()
	h.objects[x[0].Extent] = object
	h.mu.Unlock()
	check.OK(t, s.SetRemote(x[0].Extent, "sum"))
	if len(x) != 1 {
		t.Fatalf("the content is in %d slices", len(x))
	}
	return x[0]
}

// Content that only the tier has is read whole and by parts, also by a slice without the checksum of its record. A tier
// that does not answer is an error that says so, and no end of the content. Nothing is read of a record that the tier
// has changed.
func TestContentThatOnlyATierHas(t *testing.T) {
	t.Parallel()
	tier, content := &heldTier{objects: map[uint64][]byte{}}, random(1, 5000)
	s := open(t, check.MemoryDir(t), Options{SealSize: 1, Tier: tier})
	whole := tier.moved(t, s, content)
	if dropped, err := s.Drop(whole.Extent); !dropped || err != nil {
		t.Fatalf("dropped: %v, %v", dropped, err)
	}
	part := Slice{Extent: whole.Extent, Offset: whole.Offset + 100, Length: 200}
	wantContent(t, s, []Slice{whole}, content)
	wantContent(t, s, []Slice{part}, content[100:300])
	away := errors.New("away")
	tier.fail(away)
	for name, x := range map[string]Slice{"whole": whole, "a part": part} {
		r := check.Must(s.NewReader([]Slice{x}, 0, x.Length))(t)
		if p, err := io.ReadAll(r); len(p) > 0 || !errors.Is(err, away) {
			t.Errorf("%s: %d bytes, %v; want the error of the tier", name, len(p), err)
		}
		check.OK(t, r.Close())
	}
	tier.fail(nil)
	wantContent(t, s, []Slice{part}, content[100:300])
	// A bit that the tier has changed, outside the part.
	tier.flip(whole.Extent, whole.Offset+4000)
	for name, x := range map[string]Slice{"whole": whole, "a part": part} {
		r := check.Must(s.NewReader([]Slice{x}, 0, x.Length))(t)
		if p, err := io.ReadAll(r); len(p) > 0 || !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s, changed: %d bytes, %v; want ErrCorrupt", name, len(p), err)
		}
		check.OK(t, r.Close())
	}
	tier.flip(whole.Extent, whole.Offset+4000)
	wantContent(t, s, []Slice{whole}, content)
}

// A file that cannot be removed is an error of Drop, after which its content is read from the tier.
func TestAFileThatStaysBesideTheTier(t *testing.T) {
	t.Parallel()
	tier, content, disk := &heldTier{objects: map[uint64][]byte{}}, random(2, 5000), &faultdisk.FS{}
	s := open(t, check.MemoryDir(t), Options{SealSize: 1, Tier: tier, FS: disk})
	x := tier.moved(t, s, content)
	disk.FailNth(1, syscall.EIO, faultdisk.Remove)
	if _, err := s.Drop(x.Extent); !errors.Is(err, syscall.EIO) {
		t.Errorf("drop: %v, want EIO", err)
	}
	disk.SetHook(nil)
	wantContent(t, s, []Slice{x}, content)
}

// A copy of another node's extent that has holes, and whose file goes because the tier has the extent, is whole: it has
// the size that the tier has.
func TestACopyWithHolesIsWholeInTheTier(t *testing.T) {
	t.Parallel()
	const id = 7 << ownerShift
	record := recordOfOne(id, fileHeaderSize)
	object := append(fileHeader(id), record...)
	object = append(object, recordOfOne(id, int64(len(object)))...)
	size := int64(len(object))
	tier := &heldTier{objects: map[uint64][]byte{id: object}}
	s := open(t, check.MemoryDir(t), Options{Mirrored: true, Tier: tier})
	check.OK(t, s.Mirror(alone{}, 1))
	check.OK(t, s.Put(id, fileHeaderSize, record))
	check.OK(t, s.SyncPuts(id))
	s.Tiered(id, size, "sum")
	if dropped, err := s.Drop(id); !dropped || err != nil {
		t.Fatalf("dropped: %v, %v", dropped, err)
	}
	for _, x := range s.Stats() {
		if x.Size != size || !x.Finished || !x.Remote || x.Partial {
			t.Errorf("the extent is %+v, want %d bytes that only the tier has", x, size)
		}
	}
	if _, err := os.Stat(s.path(id, openSuffix)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("its file: %v", err)
	}
	x := Slice{Extent: id, Offset: fileHeaderSize + recordHeaderSize, Length: 1}
	wantContent(t, s, []Slice{x}, record[recordHeaderSize:])
}

// An extent whose removal cannot be noted in the manifest stays: a listed extent without a file would be a loss. It is
// removed once the manifest can be written.
func TestAnExtentThatCannotBeTakenFromTheManifest(t *testing.T) {
	t.Parallel()
	disk := &faultdisk.FS{}
	s := open(t, check.MemoryDir(t), Options{SealSize: 1, Grace: -1, FS: disk})
	x := store(t, s, []byte("dead"))[0]
	store(t, s, []byte("seals the one before"))
	s.sealing.Wait()
	file := s.path(x.Extent, sealedSuffix)
	disk.FailNth(1, syscall.EIO, faultdisk.Rename)
	for range 2 { // the first one finds that it is dead
		got, err := s.Compact(t.Context(), (&catalogue{}).owner(), CompactOptions{BytesPerSecond: -1})
		if got.Deleted > 0 {
			t.Errorf("%+v, %v; want nothing deleted", got, err)
		}
		if _, missing := os.Stat(file); missing != nil {
			t.Fatalf("compact: %v; %v", err, missing)
		}
	}
	if calls := disk.Failed(); calls.Kind != faultdisk.Rename {
		t.Error("no call failed: the test shows nothing")
	}
	disk.SetHook(nil)
	compact(t, s, &catalogue{})
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("once the manifest can be written: %v", err)
	}
}
