package extent

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// A node takes a record of another one only if it is intact, is the one of that extent and offset, and has the content
// that was asked for, whole.
func TestCheckRecord(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), Options{})
	x := store(t, s, random(1, 500))[0]
	offset, record, err := s.Record(x)
	check.OK(t, err)
	part := func(from, length int64) Slice { // without a checksum, which is one of a whole record
		return Slice{Extent: x.Extent, Offset: x.Offset + from, Length: length}
	}
	damaged := bytes.Clone(record)
	damaged[len(damaged)-1] ^= 1
	other := x
	other.CRC++
	elsewhere := x
	elsewhere.Extent++
	for _, c := range []struct {
		name   string
		x      Slice
		offset int64
		record []byte
		ok     bool
	}{
		{"the record", x, offset, record, true},
		{"all of it", part(0, 500), offset, record, true},
		{"its beginning", part(0, 1), offset, record, true},
		{"its end", part(499, 1), offset, record, true},
		{"one byte before it", part(-1, 10), offset, record, false},
		{"one byte behind it", part(0, 501), offset, record, false},
		{"behind it", part(500, 1), offset, record, false},
		{"another checksum", other, offset, record, false},
		{"of another extent", elsewhere, offset, record, false},
		{"at another offset", x, offset + 1, record, false},
		{"damaged", x, offset, damaged, false},
		{"cut", x, offset, record[:len(record)-1], false},
		{"a header alone", x, offset, record[:recordHeaderSize], false},
		{"nothing", x, offset, nil, false},
	} {
		if err := CheckRecord(c.x, c.offset, c.record); (err == nil) != c.ok || err != nil && !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v, want intact to be %v", c.name, err, c.ok)
		}
	}
}

// Records returns whole records from an offset on: as many as the limit allows, and one in any case. What it returns
// can be put on another node, and nothing else can.
func TestRecordsOfAnotherNode(t *testing.T) {
	t.Parallel()
	from := open(t, t.TempDir(), Options{Mirrored: true})
	check.OK(t, from.Mirror(alone{}, 7))
	const size = 300
	var slices []Slice
	for i := range uint64(4) {
		slices = append(slices, store(t, from, random(i, size))...)
	}
	id, first := slices[0].Extent, RecordOf(slices[0])
	const whole = recordHeaderSize + size
	for _, c := range []struct {
		name          string
		offset        int64
		limit         int
		at            int64
		records, last int
	}{
		{"from the start of the file", 0, 10 * whole, first, 4, 3},
		{"two fit", first, 2 * whole, first, 2, 1},
		{"a byte is missing for two", first, 2*whole - 1, first, 1, 0},
		{"one is larger than the limit", first, 1, first, 1, 0},
		{"from within a record", first + 1, 10 * whole, RecordOf(slices[1]), 3, 3},
		{"from the last one", RecordOf(slices[3]), 10 * whole, RecordOf(slices[3]), 1, 3},
		{"behind the last one", RecordOf(slices[3]) + 1, 10 * whole, 0, 0, 0},
	} {
		at, data, err := from.Records(id, c.offset, c.limit)
		check.OK(t, err)
		if len(data) != c.records*whole || c.records > 0 && at != c.at {
			t.Errorf("%s: %d bytes at %d, want %d records at %d", c.name, len(data), at, c.records, c.at)
		}
	}

	to := open(t, t.TempDir(), Options{Mirrored: true})
	check.OK(t, to.Mirror(alone{}, 8))
	at, data, err := from.Records(id, 0, 10*whole)
	check.OK(t, err)
	for _, n := range []int{1, whole - 1, whole + recordHeaderSize - 1, 2*whole - 1} {
		if err := to.PutRecords(id, at, data[:n]); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%d bytes, which are no whole records: %v", n, err)
		}
	}
	check.OK(t, to.PutRecords(id, at, data))
	check.OK(t, to.SyncPuts(id))
	for i, x := range slices {
		wantContent(t, to, []Slice{x}, random(uint64(i), size))
	}
}

// Content that is live again after it was dead waits for the whole grace period once it is dead again.
func TestGraceBeginsAgain(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), Options{SealSize: 1, Grace: time.Hour})
	slices := store(t, s, []byte("dead, live, dead"))
	store(t, s, []byte("seals the one before"))
	compact(t, s, &catalogue{})
	e := s.extents[slices[0].Extent]
	if e.deadSince.IsZero() {
		t.Fatal("the extent is not dead")
	}
	e.deadSince = time.Now().Add(-2 * time.Hour)
	compact(t, s, &catalogue{m: map[string]content{"a": {slices: slices}}})
	compact(t, s, &catalogue{})
	wantContent(t, s, slices, []byte("dead, live, dead"))
}

// A writer that is closed twice releases its pins once: an extent that seems to have fewer writers than it has would be
// deleted below one of them.
func TestAWriterIsClosedTwice(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), Options{})
	w := s.NewWriter(10)
	check.Must(w.Write(random(1, 10)))(t)
	e := s.extents[check.Must(w.Commit())(t)[0].Extent]
	if n := e.writers.Load(); n != 1 {
		t.Fatalf("%d writers before the first Close", n)
	}
	check.OK(t, w.Close())
	check.OK(t, w.Close())
	if n := e.writers.Load(); n != 0 {
		t.Errorf("%d writers after the second Close", n)
	}

	// Nor does it give its buffer back twice, which two others would then write into.
	w = s.NewWriter(10)
	check.Must(w.Write(random(1, 10)))(t)
	check.OK(t, w.Close())
	check.OK(t, w.Close())
	if a, b := newBuffer(10), newBuffer(10); a == b {
		t.Error("two writers have one buffer")
	}
}
