package extent

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/storage/crc32c"
	"github.com/lazuli-storage/lazuli/internal/storage/sumfile"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/faultdisk"
)

// A coverage has every range that was added, in as few parts as there are apart from each other, whatever their order:
// compared with a set of bytes.
func TestCoverage(t *testing.T) {
	t.Parallel()
	const size = 8
	for a := range int64(size) {
		for b := a + 1; b <= size; b++ {
			for c := range int64(size) {
				for d := c + 1; d <= size; d++ {
					var all coverage
					var bytes [size]bool
					for _, r := range [][2]int64{{2, 3}, {5, 7}, {a, b}, {c, d}} {
						all.add(r[0], r[1])
						for i := r[0]; i < r[1]; i++ {
							bytes[i] = true
						}
					}
					wantCovered(t, &all, bytes[:])
				}
			}
		}
	}
}

// wantCovered fails the test unless a coverage has the bytes that are set.
func wantCovered(t *testing.T, c *coverage, set []bool) {
	t.Helper()
	parts := 0
	for i := range set {
		if set[i] && (i == 0 || !set[i-1]) {
			parts++
		}
	}
	if len(c.ranges) != parts {
		t.Fatalf("%v has %d parts, want %d", set, len(c.ranges), parts)
	}
	size := int64(len(set))
	for from := range size + 1 {
		first, n, lacking := from, int64(0), int64(0)
		for first < size && set[first] {
			first++
		}
		for first+n < size && !set[first+n] {
			n++
		}
		for i := from; i < size; i++ {
			if !set[i] {
				lacking++
			}
		}
		if at, length := c.gap(from, size); length != n || n > 0 && at != first {
			t.Fatalf("%v: the gap from %d is %d bytes at %d, want %d at %d", set, from, length, at, n, first)
		}
		if got := c.lacking(from, size); got != lacking {
			t.Fatalf("%v: %d bytes are lacking from %d, want %d", set, got, from, lacking)
		}
	}
}

// recordOfOne returns an intact record of one byte of an extent, at an offset.
func recordOfOne(id uint64, offset int64) []byte {
	record := make([]byte, recordHeaderSize+1)
	record[recordHeaderSize] = 'x'
	putRecordHeader(record, crc32c.Checksum(record[recordHeaderSize:]), id, offset)
	return record
}

// Before and between restored records there is filler of any length that a record can have, in as many records as that
// takes: an extent with a gap is refused.
func TestGapsOfRestoredExtents(t *testing.T) {
	t.Parallel()
	const whole = recordHeaderSize + MaxRecord
	for _, gap := range []int64{0, recordHeaderSize + 1, recordHeaderSize + 2, whole - 1, whole, whole + 1,
		whole + recordHeaderSize, whole + recordHeaderSize + 1, 2 * whole, 2*whole + 1, 2*whole + recordHeaderSize} {
		dir, id, offset := filepath.Join(check.MemoryDir(t), "extents"), uint64(7), fileHeaderSize+gap
		record := recordOfOne(id, offset)
		check.OK(t, Restore(dir, Options{}, func(emit func(Content) error) error {
			return emit(Content{Window: Window{Extent: id}, Ranges: []Range{{offset, offset + int64(len(record))}},
				Records: record})
		}))
		x := Slice{Extent: id, Offset: offset + recordHeaderSize, Length: 1}
		s := open(t, dir, Options{})
		if got := load(t, s, []Slice{x}, 0, 1); string(got) != "x" {
			t.Errorf("after a gap of %d bytes: %q", gap, got)
		}
	}
	// No record is as short.
	for _, gap := range []int64{1, recordHeaderSize} {
		offset := fileHeaderSize + gap
		err := Restore(filepath.Join(check.MemoryDir(t), "extents"), Options{}, func(emit func(Content) error) error {
			record := recordOfOne(7, offset)
			return emit(Content{Window: Window{Extent: 7}, Ranges: []Range{{offset, offset + int64(len(record))}},
				Records: record})
		})
		if !errors.Is(err, ErrCorrupt) {
			t.Errorf("a gap of %d bytes: %v, want ErrCorrupt", gap, err)
		}
	}
}

// Contents of a backup that do not agree with themselves are refused.
func TestContentsThatAreRefused(t *testing.T) {
	t.Parallel()
	record := recordOfOne(7, fileHeaderSize)
	end := fileHeaderSize + int64(len(record))
	for name, c := range map[string]Content{
		"a range that is longer than its records": {Ranges: []Range{{fileHeaderSize, end + 1}}, Records: record},
		"a range without bytes":                   {Ranges: []Range{{fileHeaderSize, fileHeaderSize}}, Records: record},
		"a range that ends before its start":      {Ranges: []Range{{end, fileHeaderSize}}, Records: record},
		"records in no range":                     {Records: record},
		"more records than ranges": {Ranges: []Range{{fileHeaderSize, end}},
			Records: append(record[:len(record):len(record)], 0)},
		"a record at another place": {Ranges: []Range{{fileHeaderSize + 1, end + 1}}, Records: record},
	} {
		c.Extent = 7
		err := Restore(filepath.Join(check.MemoryDir(t), "extents"), Options{},
			func(emit func(Content) error) error { return emit(c) })
		if !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v, want ErrCorrupt", name, err)
		}
	}
}

// A key in the log that is not of 16 bytes is damage.
func TestKeysOfLoggedRecords(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), Options{Mirrored: true})
	for _, n := range []int{0, 15, 17} {
		if err := s.PutLogged(make([]byte, n), []byte("x")); !errors.Is(err, ErrCorrupt) {
			t.Errorf("a key of %d bytes: %v, want ErrCorrupt", n, err)
		}
	}
}

// unwilling is a cluster of which no other node takes a record.
type unwilling struct {
	alone
	err error
}

func (u unwilling) Begin() MirrorWriter { return unwillingWriter{err: u.err} }

type unwillingWriter struct {
	aloneWriter
	err error
}

func (u unwillingWriter) Add(Slice, []byte, bool) error { return u.err }

// Content that no other node takes is not acknowledged.
func TestContentThatNoOtherNodeTakes(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), Options{Mirrored: true})
	refused := errors.New("refused")
	check.OK(t, s.Mirror(unwilling{err: refused}, 7))
	w := s.NewWriter(-1)
	defer w.Close()
	_, err := w.Write(random(1, 100))
	if err == nil {
		_, err = w.Commit()
	}
	if !errors.Is(err, refused) {
		t.Errorf("%v, want the error of the other node", err)
	}
}

// A record of a bulk extent that cannot be replaced, or not synced, is an error of Put.
func TestBulkRecordsOnADiskThatFails(t *testing.T) {
	t.Parallel()
	dir := directDir(t)
	for _, kind := range []faultdisk.Kind{faultdisk.Write, faultdisk.Sync} {
		disk := &faultdisk.FS{}
		s := open(t, dir, Options{FS: disk})
		x := store(t, s, random(1, bulkThreshold))[0]
		offset, record, err := s.Record(x)
		check.OK(t, err)
		disk.Fail(1, faultdisk.Failure{Err: syscall.EIO, Once: true}, kind)
		if err := s.Put(x.Extent, offset, record); !errors.Is(err, syscall.EIO) {
			t.Errorf("%s fails: %v", kind, err)
		}
		disk.SetHook(nil)
		check.OK(t, s.Close())
	}
}

// After an orderly end, the manifest has each extent finished, with the size of its file: a shorter one is refused.
func TestTheManifestAfterAnOrderlyEnd(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir, Options{SealSize: 20_000})
	for i := range 4 {
		store(t, s, random(uint64(i), 9_000))
	}
	check.OK(t, s.Close())
	var list listing
	check.OK(t, sumfile.Read(filepath.Join(dir, ManifestFile), manifestKind, manifestVersion, &list))
	found := check.Must(files(dir))(t)
	if len(list.Extents) != len(found) || len(found) < 2 {
		t.Errorf("the manifest has %d extents, and the folder %d", len(list.Extents), len(found))
	}
	for id, name := range found {
		size := check.Must(os.Stat(filepath.Join(dir, name)))(t).Size()
		if got := list.Extents[idText(id)]; !got.Finished || got.Size != size || !strings.HasSuffix(name, sealedSuffix) {
			t.Errorf("%s of %d bytes: the manifest has %+v", name, size, got)
		}
	}
}

// Content of a store whose disk refuses a new file, or the file of marks, is refused; once the disk is well, it is
// stored.
func TestFilesThatCannotBeMade(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		kind   faultdisk.Kind
		suffix string
		size   int
	}{
		"an extent":                         {faultdisk.Create, openSuffix, 100},
		"a bulk extent":                     {faultdisk.Create, openSuffix, bulkThreshold},
		"the header of a bulk extent":       {faultdisk.Write, openSuffix, bulkThreshold},
		"the marks":                         {faultdisk.Create, MarksFile, 100},
		"the sync of the marks":             {faultdisk.Sync, MarksFile, 100},
		"the content of the marks":          {faultdisk.Write, MarksFile, 100},
		"the manifest that names an extent": {faultdisk.Rename, ManifestFile + ".part", 100},
	} {
		disk := &faultdisk.FS{}
		s := open(t, directDir(t), Options{FS: disk})
		failures := 0
		disk.SetHook(func(op faultdisk.Op) error {
			if op.Kind != c.kind || !strings.HasSuffix(op.Name, c.suffix) {
				return nil
			}
			failures++
			return syscall.EIO
		})
		put := func() error {
			w := s.NewWriter(int64(c.size))
			defer w.Close()
			if _, err := w.Write(random(1, c.size)); err != nil {
				return err
			}
			_, err := w.Commit()
			return err
		}
		if err := put(); !errors.Is(err, syscall.EIO) || failures == 0 {
			t.Errorf("%s: %v after %d failures", name, err, failures)
		}
		disk.SetHook(nil)
		if err := put(); err != nil {
			t.Errorf("%s: the disk is well again: %v", name, err)
		}
	}
}
