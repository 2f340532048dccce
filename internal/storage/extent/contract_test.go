package extent

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

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
	// Nothing is left that a crash would leave.
	if _, err := os.Stat(filepath.Join(dir, MarksFile)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file of marks: %v", err)
	}
	var list listing
	check.OK(t, sumfile.Read(filepath.Join(dir, ManifestFile), manifestKind, manifestVersion, &list))
	found := check.Must(files(dir))(t)
	if list.Marked || len(list.Extents) != len(found) || len(found) < 2 {
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

// A slice needs what a gap has if they share a byte; and what comes after the last intact record if there is no gap.
func TestSlicesThatADamageTouches(t *testing.T) {
	t.Parallel()
	const size = 12
	gaps := []span{{2, 2}, {7, 3}}
	in := func(at int64) bool { return at >= 2 && at < 4 || at >= 7 && at < 10 }
	for from := range int64(size) {
		for to := from + 1; to <= size; to++ {
			shared := false
			for at := from; at < to; at++ {
				shared = shared || in(at)
			}
			x := Slice{Offset: from, Length: to - from}
			if got := (&examination{gaps: gaps, end: 7}).touches(x); got != shared {
				t.Errorf("[%d, %d): touched %v, want %v", from, to, got, shared)
			}
			if got := (&examination{end: 7}).touches(x); got != (to > 7) {
				t.Errorf("[%d, %d) without gaps: touched %v", from, to, got)
			}
		}
	}
}

// Content that was damaged after its record was checked is neither moved nor lost: Compact reports it, and the
// reference stays.
func TestCompactReportsDamageSinceTheLastCheck(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), Options{SealSize: 1000, Grace: -1})
	c := &catalogue{m: map[string]content{}}
	p := random(1, smallRead+1)
	c.put(t, s, "bad", p)
	c.put(t, s, "next", random(2, 1000)) // seals the first one
	s.sealing.Wait()
	bad := c.m["bad"].slices[0]
	wantContent(t, s, c.m["bad"].slices, p)
	path := s.path(bad.Extent, sealedSuffix)
	spoil(t, path, int(bad.Offset)+10)
	_, err := s.Compact(t.Context(), c.owner(), CompactOptions{BytesPerSecond: -1, MinLive: 2})
	if !errors.Is(err, ErrCorrupt) || c.m["bad"].slices[0] != bad {
		t.Errorf("%v; the reference is %+v, and was %+v", err, c.m["bad"].slices[0], bad)
	}
	spoil(t, path, int(bad.Offset)+10) // as it was
}

// Compact keeps to its limit: what it has moved takes as long as the limit says, or until its context ends.
func TestCompactKeepsToItsLimit(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), Options{SealSize: 1000, Grace: -1})
	c := &catalogue{m: map[string]content{}}
	c.put(t, s, "a", random(1, 2000))
	c.put(t, s, "b", random(2, 2000)) // seals the first one
	s.sealing.Wait()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := s.Compact(ctx, c.owner(), CompactOptions{BytesPerSecond: 1, MinLive: 2}); err == nil {
		t.Error("half an hour's bytes were moved in a tenth of a second")
	}
}

// An extent that became shorter while it was open ends with an error, and not with the end of its content.
func TestFileThatIsShorterThanItWas(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1000, smallRead + 1000} {
		s := check.Must(Open(t.TempDir(), Options{}))(t)
		p := random(1, size)
		x := store(t, s, p)
		check.OK(t, os.Truncate(s.path(x[0].Extent, openSuffix), x[0].Offset+int64(size)-100))
		for _, how := range []string{"WriteTo", "Read", "large Read"} {
			for _, from := range []int64{0, 10} {
				if err := prefixOf(t, s, x, from, int64(size)-from, p, how); !errors.Is(err, ErrCorrupt) {
					t.Errorf("%s of %d bytes from %d: %v, want ErrCorrupt", how, size, from, err)
				}
			}
		}
		_ = s.Close()
	}
}

// What has the name of an extent and is no file, or cannot be opened, ends the calls that write a folder: nothing is
// removed, and no call says that it has done its work.
func TestFoldersThatCannotBeOpened(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]func(dir string) error{
		"Open": func(dir string) error { _, err := Open(dir, Options{}); return err },
		"Restore": func(dir string) error {
			return Restore(dir, Options{}, func(func(Content) error) error { return nil })
		},
		"Extend": func(dir string) error {
			return Extend(dir, Options{}, map[uint64][]Range{},
				func(func(uint64, int64, []byte) error) error { return nil })
		},
		"FillCopies": func(dir string) error { return FillCopies(dir, Options{}, nil) },
	} {
		dir := t.TempDir()
		folder := filepath.Join(dir, idText(7)+openSuffix)
		check.OK(t, os.Mkdir(folder, 0o700))
		if err := call(dir); err == nil {
			t.Errorf("%s: no error", name)
		}
		if _, err := os.Stat(folder); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A node answers for what it does not have with an error, and a note about it does nothing.
func TestRecordsThatANodeDoesNotHave(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), Options{Mirrored: true})
	check.OK(t, s.Mirror(alone{}, 1))
	x := Slice{Extent: 7 << ownerShift, Offset: fileHeaderSize + recordHeaderSize, Length: 1}
	if _, _, err := s.Record(x); !errors.Is(err, ErrNotFound) {
		t.Errorf("Record: %v", err)
	}
	if _, _, err := s.Records(x.Extent, 0, 100); !errors.Is(err, ErrNotFound) {
		t.Errorf("Records: %v", err)
	}
	if err := s.SyncPuts(x.Extent); !errors.Is(err, ErrNotFound) {
		t.Errorf("SyncPuts: %v", err)
	}
	s.End(x.Extent)
	s.Void(x.Extent, fileHeaderSize, 100)
	if s.Release(x.Extent) {
		t.Error("an extent that is not there was released")
	}
	if complete, err := s.Complete(x.Extent, fileHeaderSize+1); complete || err != nil {
		t.Errorf("Complete: %v, %v", complete, err)
	}
	check.OK(t, s.Put(x.Extent, fileHeaderSize, recordOfOne(x.Extent, fileHeaderSize)))
	for _, at := range []int64{x.Offset - 1, x.Offset + 1} {
		if _, _, err := s.Record(Slice{Extent: x.Extent, Offset: at, Length: 1}); !errors.Is(err, ErrCorrupt) {
			t.Errorf("Record at %d: %v", at, err)
		}
	}
}

// A range that the owner of an extent does not have either is missing no more, and the copy can be completed.
func TestVoidRanges(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), Options{Mirrored: true})
	check.OK(t, s.Mirror(alone{}, 1))
	const id = 7 << ownerShift
	record := recordOfOne(id, fileHeaderSize)
	end := fileHeaderSize + int64(len(record))
	check.OK(t, s.Put(id, fileHeaderSize, record))
	missing := func(wantAt, wantN int64) {
		t.Helper()
		at, n, err := s.Missing(id, 0, end+100)
		if check.OK(t, err); at != wantAt || n != wantN {
			t.Errorf("%d bytes are missing at %d, want %d at %d", n, at, wantN, wantAt)
		}
	}
	missing(end, 100)
	if complete, err := s.Complete(id, end+100); complete || err != nil {
		t.Errorf("completed: %v, %v", complete, err)
	}
	s.Void(id, end, 60)
	missing(end+60, 40)
	s.Void(id, end+60, 40)
	missing(0, 0)
	if complete, err := s.Complete(id, end+100); !complete || err != nil {
		t.Errorf("not completed: %v, %v", complete, err)
	}
}

// A part of a record that cannot be cut off ends its extent: later content goes to another one, and the next Open cuts
// the part off.
func TestAPartOfARecordEndsItsExtent(t *testing.T) {
	t.Parallel()
	dir, disk := t.TempDir(), &faultdisk.FS{}
	s := open(t, dir, Options{FS: disk})
	first := content{store(t, s, random(1, 1000)), random(1, 1000)}
	disk.Fail(1, faultdisk.Failure{Err: syscall.EIO, Partly: true}, faultdisk.Write, faultdisk.Truncate)
	w := s.NewWriter(1000)
	_, err := w.Write(random(2, 1000))
	if err == nil {
		_, err = w.Commit()
	}
	if check.OK(t, w.Close()); !errors.Is(err, syscall.EIO) {
		t.Errorf("%v, want the disk's error", err)
	}
	disk.SetHook(nil)
	second := content{store(t, s, random(3, 1000)), random(3, 1000)}
	if second.slices[0].Extent == first.slices[0].Extent {
		t.Error("a record was added behind a part of another one")
	}
	check.OK(t, s.Close())
	kept := []content{first, second}
	s = open(t, dir, Options{Refs: refsOf(&kept)})
	for _, c := range kept {
		wantContent(t, s, c.slices, c.bytes)
	}
}

// A manifest that is damaged is no empty one.
func TestADamagedManifestIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir, Options{})
	store(t, s, random(1, 1000))
	check.OK(t, s.Close())
	size := check.Must(os.Stat(filepath.Join(dir, ManifestFile)))(t).Size()
	for _, at := range []int64{0, size / 2, size - 1} {
		spoilt := damagedCopy(t, dir, ManifestFile, int(at))
		if _, err := Open(spoilt, Options{}); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), ManifestFile) {
			t.Errorf("a wrong byte at %d: %v, want ErrCorrupt", at, err)
		}
	}
}

// A reader gives back the file of each extent that it has read.
func TestAReaderOfSeveralExtents(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), Options{SealSize: 1})
	var all []Slice
	var want []byte
	for i := range uint64(3) {
		all = append(all, store(t, s, random(i, 1000))...)
		want = append(want, random(i, 1000)...)
	}
	check.OK(t, prefixOf(t, s, all, 0, int64(len(want)), want, "Read"))
	if n := s.handles.lru.Len(); n != len(all) {
		t.Errorf("%d idle files, want %d", n, len(all))
	}
}

// Verify reads what was checked a moment ago.
func TestVerifyReadsAgain(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), Options{})
	p := random(1, smallRead+1)
	x := store(t, s, p)
	wantContent(t, s, x, p)
	check.OK(t, s.Verify(x[0]))
	path := s.path(x[0].Extent, openSuffix)
	spoil(t, path, int(x[0].Offset)+10)
	if err := s.Verify(x[0]); !errors.Is(err, ErrCorrupt) {
		t.Errorf("%v, want ErrCorrupt", err)
	}
	spoil(t, path, int(x[0].Offset)+10) // as it was
}

// A copy that an earlier process has made lacks what that process has not put, and what is damaged, and no more.
func TestCopiesOfAnEarlierProcess(t *testing.T) {
	t.Parallel()
	const id, records, size = 7 << ownerShift, 6, recordHeaderSize + 1
	at := func(i int64) int64 { return fileHeaderSize + i*size }
	dir := t.TempDir()
	s := open(t, dir, Options{Mirrored: true})
	for _, i := range []int64{0, 1, 3, 5} {
		check.OK(t, s.Put(id, at(i), recordOfOne(id, at(i))))
	}
	check.OK(t, s.SyncPuts(id))
	check.OK(t, s.Close())
	spoil(t, filepath.Join(dir, idText(id)+copySuffix), int(at(1))+recordHeaderSize)
	s = check.Must(Open(dir, Options{Mirrored: true}))(t)
	defer s.Close()
	check.OK(t, s.Mirror(alone{}, 1))
	var missing []int64
	for from := int64(0); ; {
		first, n, err := s.Missing(id, from, at(records))
		if check.OK(t, err); n == 0 {
			break
		}
		missing = append(missing, first, first+n)
		from = first + n
	}
	if want := []int64{at(1), at(3), at(4), at(5)}; !slices.Equal(missing, want) {
		t.Errorf("%d is missing, want %d", missing, want)
	}
	if n := s.Lacking(id, at(records)); n != 3*size {
		t.Errorf("%d bytes are lacking, want %d", n, 3*size)
	}
}

// A manifest that was made of the files that are there has a number above that of the marks, also if the marks could
// not be removed: verify would take it for an older copy.
func TestAnAcceptedManifestIsTheNewest(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir, Options{SealSize: 1})
	store(t, s, random(1, 100))
	older := check.Must(os.ReadFile(filepath.Join(dir, ManifestFile)))(t)
	for i := range uint64(3) {
		store(t, s, random(i, 100))
	}
	s.sealing.Wait()
	killed := t.TempDir()
	check.OK(t, os.CopyFS(killed, os.DirFS(dir)))
	check.OK(t, os.WriteFile(filepath.Join(killed, ManifestFile), older, 0o600))
	if problems, err := Verify(killed); err != nil || len(problems) == 0 || problems[0].File != ManifestFile {
		t.Fatalf("%v, %v; want an older copy", problems, err)
	}
	disk := &faultdisk.FS{}
	disk.Fail(1, faultdisk.Failure{Err: syscall.EIO}, faultdisk.Remove)
	if err := writeList(disk, killed); !errors.Is(err, syscall.EIO) {
		t.Errorf("%v, want the disk's error", err)
	}
	if problems, err := Verify(killed); err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
}
