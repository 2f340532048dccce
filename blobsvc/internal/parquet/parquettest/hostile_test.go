package parquettest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	writer "github.com/parquet-go/parquet-go"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/parquet"
)

// compact writes Thrift's compact protocol, as an attacker would.
type compact struct {
	bytes.Buffer
	last []int // the ids of the fields before, of the structures that are open
}

func (c *compact) uvarint(n uint64) *compact {
	c.Write(binary.AppendUvarint(nil, n))
	return c
}

func (c *compact) begin() *compact { c.last = append(c.last, 0); return c }
func (c *compact) end() *compact {
	c.last = c.last[:len(c.last)-1]
	c.WriteByte(0)
	return c
}

func (c *compact) field(id, kind int) *compact {
	last := &c.last[len(c.last)-1]
	c.WriteByte(byte((id-*last)<<4 | kind))
	*last = id
	return c
}

func (c *compact) int(id int, n int64) *compact {
	return c.field(id, 6).uvarint(uint64(n)<<1 ^ uint64(n>>63))
}

func (c *compact) text(id int, s string) *compact {
	c.field(id, 8).uvarint(uint64(len(s)))
	c.WriteString(s)
	return c
}

func (c *compact) list(id, n int) *compact {
	c.field(id, 9).WriteByte(15<<4 | 12)
	return c.uvarint(uint64(n))
}

// forged is a file of one column and one chunk, with what is not said honest.
type forged struct {
	kind, repetition     int
	codec, values        int64
	pages                []byte
	footer               func(*compact) // instead of the usual one
	footerSize           uint32         // 0 for the true one
	chunkAt, chunkLength int64          // 0 for the true ones
	length               int64
}

func (f forged) file() []byte {
	b := append([]byte("PAR1"), f.pages...)
	c := &compact{}
	c.begin()
	if f.footer != nil {
		f.footer(c)
	} else {
		c.int(1, 1).list(2, 2)
		c.begin().text(4, "root").int(5, 1).end()
		c.begin().int(1, int64(f.kind))
		if f.length != 0 {
			c.int(2, f.length)
		}
		c.int(3, int64(f.repetition)).text(4, "x").end()
		at, length := max(f.chunkAt, 4), int64(len(f.pages))
		if f.chunkLength != 0 {
			length = f.chunkLength
		}
		c.int(3, f.values).list(4, 1).begin().list(1, 1).begin().field(3, 12).begin().int(1, int64(f.kind)).int(4,
			f.codec).int(5, f.values)
		c.int(7, length).int(9, at).end().end().int(3, f.values).end()
	}
	c.end()
	size := uint32(c.Len())
	if f.footerSize != 0 {
		size = f.footerSize
	}
	b = append(b, c.Bytes()...)
	b = binary.LittleEndian.AppendUint32(b, size)
	return append(b, "PAR1"...)
}

// page is a data page of version 1, or a dictionary.
func page(kind int, size, stored, values, encoding int64, content []byte) []byte {
	c := &compact{}
	inner := 5
	if kind == 2 {
		inner = 7
	}
	c.begin().int(1, int64(kind)).int(2, size).int(3, stored).int(4,
		int64(int32(crc32.ChecksumIEEE(content)))).field(inner, 12).begin().int(1, values).int(2, encoding)
	if kind == 0 {
		c.int(3, 3)
	}
	c.end().end()
	return append(c.Bytes(), content...)
}

func honest(kind int, values, encoding int64, content []byte) []byte {
	return page(kind, int64(len(content)), int64(len(content)), values, encoding, content)
}

// deltas is a DELTA_BINARY_PACKED list of n numbers: first, and then no difference.
func deltas(n, first uint64) (b []byte) {
	b = binary.AppendUvarint(b, 128*8)
	b = binary.AppendUvarint(b, 1)
	b = binary.AppendUvarint(b, n)
	b = binary.AppendUvarint(b, first<<1)
	for left := min(int64(n)-1, 1<<20); left > 0; left -= 128 * 8 {
		b = append(b, 0, 0) // no least difference, width 0
	}
	return b
}

func text(s string) string {
	return string(binary.LittleEndian.AppendUint32(nil, uint32(len(s)))) + s
}

// Files that claim more than they are take no memory to speak of: neither to be opened, nor to be read.
// The tests of this package run one after the other: they measure memory.
func TestHostileFiles(t *testing.T) {
	zeros := func(n int) []byte {
		e, err := zstd.NewWriter(nil)
		if err != nil {
			t.Fatal(err)
		}
		return e.EncodeAll(make([]byte, n), nil)
	}
	snappy := append(binary.AppendUvarint(nil, 1<<31), 0, 0)
	deep := &compact{}
	deep.begin()
	for range 100_000 {
		deep.field(1, 12).begin()
	}
	// A run of values of which the second one would begin with 1 MiB of the one before.
	prefixes := append(append(deltas(1, 0), deltas(1, 1<<20)...), make([]byte, 1<<20)...)
	long := append(binary.AppendUvarint(
		binary.AppendUvarint(binary.AppendUvarint(binary.AppendUvarint(nil, 128), 4), 1000), 0),
		append([]byte{1 << 1}, 0, 0, 0, 0)...)
	for _, tc := range []struct {
		name string
		forged
		rows int64 // that are read, at most
	}{
		{"a footer longer than the file", forged{footerSize: 1<<32 - 1}, 0},
		{"a footer of nothing", forged{footerSize: 1}, 0},
		{"a list of columns that is not there", forged{footer: func(c *compact) { c.list(2, 1<<31) }}, 0},
		{"a list of row groups that is not there", forged{footer: func(c *compact) {
			c.list(2, 2).begin().text(4, "r").int(5, 1).end().begin().int(1, 1).int(3, 0).text(4, "x").end().list(4, 1<<31)
		}}, 0},
		{"children without end", forged{footer: func(c *compact) {
			c.list(2, 2).begin().text(4, "r").int(5, math.MaxInt32).end().begin().int(1, 1).int(3, 0).text(4, "x").end()
		}}, 0},
		{"groups within groups", forged{footer: func(c *compact) {
			c.list(2, 1000)
			for range 1000 {
				c.begin().int(3, 0).text(4, "g").int(5, 1).end()
			}
		}}, 0},
		{"many columns", forged{footer: func(c *compact) {
			c.list(2, 20_001).begin().text(4, "r").int(5, 20_000).end()
			for range 20_000 {
				c.begin().int(1, 1).int(3, 0).text(4, "x").end()
			}
		}}, 0},
		{"a long name over many columns", forged{footer: func(c *compact) {
			c.list(2, 5002).begin().text(4, "r").int(5, 1).end().begin().int(3, 0).text(4, strings.Repeat("x", 1<<20)).int(5,
				5000).end()
			for range 5000 {
				c.begin().int(1, 1).int(3, 0).text(4, "x").end()
			}
		}}, 0},
		{"structures within structures", forged{footer: func(c *compact) { c.field(15, 12); c.Write(deep.Bytes()) }}, 0},
		{"negative children", forged{footer: func(c *compact) { c.list(2, 1).begin().text(4, "r").int(5, -1).end() }}, 0},
		{"a chunk behind the end", forged{kind: 1, values: 10, chunkAt: 1 << 40}, 0},
		{"a chunk beyond the end", forged{kind: 1, values: 10, chunkLength: math.MaxInt64}, 0},
		{"a negative number of values", forged{kind: 1, values: -5}, 0},
		{"a value of 2 GiB", forged{kind: 7, length: math.MaxInt32, values: 1}, 0},
		{"a page of 2 GiB", forged{kind: 1, values: 10, pages: page(0, math.MaxInt32, math.MaxInt32, 10, 0, nil)}, 0},
		{"a negative page", forged{kind: 1, values: 10, pages: page(0, -1, -1, 10, 0, nil)}, 0},
		{"a page that decompresses to 2 GiB",
			forged{kind: 1, codec: 1, values: 10, pages: page(0, math.MaxInt32, 7, 10, 0, snappy)}, 0},
		{"a page that decompresses to more than it says",
			forged{kind: 1, codec: 1, values: 10, pages: page(0, 100, 7, 10, 0, snappy)}, 0},
		{"zeros", forged{kind: 1, codec: 6, values: 10, pages: page(0, 100, int64(len(zeros(60<<20))), 10, 0, zeros(60<<20))},
			0},
		{"more zeros than the budget",
			forged{kind: 1, codec: 6, values: 10, pages: page(0, 60<<20, int64(len(zeros(60<<20))), 10, 0, zeros(60<<20))}, 0},
		{"a dictionary of 2^31 entries", forged{kind: 1, values: 10, pages: honest(2, math.MaxInt32, 0, make([]byte, 100))},
			0},
		{"a dictionary of 2^31 texts", forged{kind: 6, values: 10, pages: honest(2, math.MaxInt32, 0, make([]byte, 100))}, 0},
		{"a page without its dictionary", forged{kind: 6, values: 10, pages: honest(0, 10, 8, []byte{1, 2, 0})}, 0},
		{"an index beyond the dictionary",
			forged{kind: 6, values: 10, pages: append(honest(2, 1, 0, []byte(text("a"))),
				honest(0, 10, 8, []byte{1, 20, 1})...)}, 0},
		{"a text beyond the page", forged{kind: 6, values: 10,
			pages: honest(0, 10, 0, binary.LittleEndian.AppendUint32(nil, math.MaxUint32))}, 0},
		{"differences of a number that is not there",
			forged{kind: 2, values: 10, pages: honest(0, 10, 5, deltas(math.MaxInt64, 1))}, 0},
		{"lengths beyond the page", forged{kind: 6, values: 10, pages: honest(0, 10, 6, deltas(10, 1<<40))}, 0},
		{"a prefix of nothing", forged{kind: 6, values: 10, pages: honest(0, 10, 7, append(deltas(10, 5), deltas(10, 0)...))},
			0},
		{"prefixes that grow", forged{kind: 6, values: 1000, pages: honest(0, 1000, 7, append(long, deltas(1000, 1)...))}, 0},
		// What is honest and large: it is read, and takes what one value takes.
		{"a run of 2^31 numbers", forged{kind: 6, values: math.MaxInt32, pages: append(honest(2, 1, 0, []byte(text("a"))),
			honest(0, math.MaxInt32, 8, append([]byte{1}, append(binary.AppendUvarint(nil, math.MaxUint64&^1), 0)...))...)},
			100_000},
		{"a run of 2^31 nulls", forged{kind: 6, repetition: 1, values: math.MaxInt32, pages: honest(0, math.MaxInt32, 0,
			[]byte(text(string(append(binary.AppendUvarint(nil, math.MaxUint64&^1), 0)))))}, 100_000},
		{"no difference 2^20 times", forged{kind: 2, values: 1 << 20, pages: honest(0, 1<<20, 5, deltas(1<<20, 7))}, 100_000},
		{"one long value", forged{kind: 6, values: 1, pages: honest(0, 1, 7, prefixes)}, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			file := tc.file()
			const budget = 8 << 20
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			rows, err := readAll(file, budget, max(tc.rows, 10))
			runtime.ReadMemStats(&after)
			if (err == nil) != (tc.rows > 0) || int64(len(rows)) != tc.rows {
				t.Errorf("%d rows, %v; want %d", len(rows), err, tc.rows)
			}
			// Rows are the test's own: some 50 bytes of each, several times while their list grows.
			took, bound := after.TotalAlloc-before.TotalAlloc, uint64(budget+8<<20+len(file)+300*len(rows))
			if took > bound {
				t.Errorf("%d bytes were taken for a file of %d, want at most %d", took, len(file), bound)
			}
			t.Log(err, took)
		})
	}
	if _, err := readAll(forged{kind: 1, codec: 6, values: 10,
		pages: page(0, 60<<20, int64(len(zeros(60<<20))), 10, 0, zeros(60<<20))}.file(), 8<<20,
		10); !errors.Is(err, parquet.ErrMemory) {
		t.Errorf("a page beyond the budget: %v", err)
	}
}

// Encodings that the library does not write.
func TestOtherEncodings(t *testing.T) {
	for _, tc := range []struct {
		name string
		forged
		want string
	}{
		{"booleans in runs", forged{kind: 0, values: 12, pages: honest(0, 12, 3, []byte(text("\x06\x01\x05\xb5\xff")))},
			"[n1 n1 n1 n1 n0 n1 n0 n1 n1 n0 n1 n1]"},
		{"a bit-packed run that ends early",
			forged{kind: 1, values: 3, pages: append(honest(2, 2, 2, []byte("\x01\x00\x00\x00\x02\x00\x00\x00")),
				honest(0, 3, 2, []byte("\x04\x03\x10\x01"))...)}, "[n1 n2 n2]"},
		{"all null, without indexes", forged{kind: 6, repetition: 1, values: 3,
			pages: append(honest(2, 1, 0, []byte(text("a"))), honest(0, 3, 8, []byte(text("\x06\x00")))...)},
			"[null null null]"},
		{"a page index between pages",
			forged{kind: 1, values: 2, pages: append(
				append(honest(0, 1, 0, []byte("\x05\x00\x00\x00")), honest(1, 0, 0, []byte("?"))...),
				honest(0, 1, 0, []byte("\xff\xff\xff\xff"))...)}, "[n5 n-1]"},
		{"differences that overflow", forged{kind: 1, values: 2,
			pages: honest(0, 2, 5, append(binary.AppendUvarint([]byte{0x80, 1, 4, 2}, math.MaxInt32*2),
				append(binary.AppendUvarint(nil, 2), 0, 0, 0, 0)...))}, fmt.Sprintf("[n%d n%d]", math.MaxInt32, math.MinInt32)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rows, err := readAll(tc.file(), 1<<20, 100)
			var got []string
			for _, r := range rows {
				got = append(got, r...)
			}
			if err != nil || fmt.Sprint(got) != tc.want {
				t.Errorf("%v, %v; want %s", got, err, tc.want)
			}
		})
	}
}

// FuzzFile: any bytes are read or refused, without a panic, and with no more memory than the budget and the file.
func FuzzFile(f *testing.F) {
	s := "x"
	rows := []row{{I32: 5, Plain: "abc", Dict: "d", Prefix: "abcd"},
		{Bool: true, Prefix: "abce", Length: []byte("z"), Maybe: &s, Sub: &sub{Y: 1}}, {}}
	for _, version := range []int{1, 2} {
		for _, codec := range []string{"none", "snappy", "zstd", "gzip", "lz4", "brotli"} {
			options := []writer.WriterOption{writer.DataPageVersion(version)}
			if c := codecs[codec]; c != nil {
				options = append(options, writer.Compression(c))
			}
			f.Add(write(f, rows, options...))
		}
	}
	f.Add(forged{kind: 0, values: 12, pages: honest(0, 12, 3, []byte(text("\x06\x01\x05\xb5\xff")))}.file())
	f.Add(forged{kind: 2, values: 1 << 20, pages: honest(0, 1<<20, 5, deltas(1<<20, 7))}.file())
	f.Add(forged{kind: 6, values: 3,
		pages: honest(0, 3, 7, append(append(deltas(3, 0), deltas(3, 1)...), "abc"...))}.file())
	f.Fuzz(func(t *testing.T, b []byte) {
		const budget = 1 << 20
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		rows, _ := readAll(b, budget, 50)
		runtime.ReadMemStats(&after)
		size := 0
		for _, r := range rows {
			for _, s := range r {
				size += len(s) + 100
			}
		}
		// A decompressor has tables of its own; brotli's window has up to 16 MiB.
		if took := after.TotalAlloc - before.TotalAlloc; took > uint64(budget+32<<20+100*len(b)+4*size) {
			t.Fatalf("%d bytes were taken for a file of %d", took, len(b))
		}
	})
}
