package parquettest

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	writer "github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"
	"pgregory.net/rapid"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/parquet"
)

// row has a column of each type and encoding.
type row struct {
	Bool   bool        `parquet:"bool"`
	I32    int32       `parquet:"i32,delta"`
	I64    int64       `parquet:"i64,delta"`
	P32    int32       `parquet:"p32"`
	D64    int64       `parquet:"d64,dict"`
	Float  float32     `parquet:"float,split"`
	Double float64     `parquet:"double,split"`
	Plain  string      `parquet:"plain"`
	Dict   string      `parquet:"dict,dict"`
	Length []byte      `parquet:"length,delta"`
	Prefix string      `parquet:"prefix,delta"`
	Fixed  [5]byte     `parquet:"fixed"`
	FDict  [3]byte     `parquet:"fdict,dict"`
	Old    writerInt96 `parquet:"old"`
	Maybe  *string     `parquet:"maybe,optional,dict"`
	MaybeN *int64      `parquet:"mayben,optional"`
	Sub    *sub        `parquet:"sub,optional"`
}

type writerInt96 = [12]byte

type sub struct {
	X    *float64 `parquet:"x,optional"`
	Flag *bool    `parquet:"flag,optional"`
	Y    int32    `parquet:"y,dict"`
}

// texts are the values of a row in the order of columns.
func (r *row) texts() []string {
	s := []string{num(b2i(r.Bool)), num(int64(r.I32)), num(r.I64), num(int64(r.P32)), num(r.D64),
		num(int64(int32(math.Float32bits(r.Float)))),
		num(int64(math.Float64bits(r.Double))), r.Plain, r.Dict, string(r.Length), r.Prefix, string(r.Fixed[:]),
		string(r.FDict[:]), string(r.Old[:])}
	null := "null"
	if s = append(s, null); r.Maybe != nil {
		s[len(s)-1] = *r.Maybe
	}
	if s = append(s, null); r.MaybeN != nil {
		s[len(s)-1] = num(*r.MaybeN)
	}
	x, flag, y := null, null, null
	if r.Sub != nil {
		if y = num(int64(r.Sub.Y)); r.Sub.X != nil {
			x = num(int64(math.Float64bits(*r.Sub.X)))
		}
		if r.Sub.Flag != nil {
			flag = num(b2i(*r.Sub.Flag))
		}
	}
	return append(s, x, flag, y)
}

func b2i(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

func num(n int64) string { return fmt.Sprint("n", n) }

// readAll reads the given columns of a file row by row, at most most rows.
func readAll(b []byte, budget parquet.Budget, most int64, columns ...int) (rows [][]string, err error) {
	f, err := parquet.Open(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return nil, err
	}
	if columns == nil {
		for i, c := range f.Columns {
			if !c.Repeated {
				columns = append(columns, i)
			}
		}
	}
	var readers []*parquet.Reader
	for _, i := range columns {
		readers = append(readers, f.Reader(i, &budget))
	}
	for {
		n, err := f.Next(readers)
		if err == io.EOF {
			return rows, nil
		}
		if err != nil {
			return rows, err
		}
		for range min(n, most-int64(len(rows))) {
			var texts []string
			for i, r := range readers {
				v, err := r.Next()
				switch kind := f.Columns[columns[i]].Kind; {
				case err != nil:
					return rows, err
				case v.Null:
					texts = append(texts, "null")
				case kind == parquet.ByteArray || kind == parquet.FixedLenByteArray || kind == parquet.Int96:
					texts = append(texts, string(v.B))
				default:
					texts = append(texts, num(v.N))
				}
			}
			rows = append(rows, texts)
		}
		if int64(len(rows)) >= most {
			return rows, nil
		}
	}
}

var codecs = map[string]compress.Codec{"none": nil, "snappy": &writer.Snappy, "gzip": &writer.Gzip,
	"brotli": &writer.Brotli, "zstd": &writer.Zstd, "lz4": &writer.Lz4Raw}

func write(t interface{ Fatal(...any) }, rows []row, options ...writer.WriterOption) []byte {
	var b bytes.Buffer
	w := writer.NewGenericWriter[row](&b, options...)
	if _, err := w.Write(rows); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// What the library writes, in any encoding, compression and size of pages, is what comes back; of columns that are read
// alone, too.
func TestReadsWhatIsWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := rapid.OneOf(rapid.Int64(), rapid.Int64Range(-3, 3))
		text := rapid.OneOf(rapid.SampledFrom([]string{"", "a", "lazuli", "lazulite", "lapis lazuli"}),
			rapid.StringN(0, 50, 200))
		rows := make([]row, rapid.IntRange(0, 700).Draw(t, "rows"))
		// A few rows are drawn, the others repeat them: runs have to be long for some branches.
		kinds := make([]row, rapid.IntRange(1, 8).Draw(t, "kinds"))
		for i := range kinds {
			k := row{Bool: rapid.Bool().Draw(t, "bool"), I32: int32(number.Draw(t, "i32")), I64: number.Draw(t, "i64"),
				P32: int32(number.Draw(t, "p32")),
				D64: number.Draw(t, "d64"), Float: rapid.Float32().Draw(t, "float"), Double: rapid.Float64().Draw(t, "double"),
				Plain: text.Draw(t, "plain"),
				Dict:  text.Draw(t, "dict"), Length: []byte(text.Draw(t, "length")), Prefix: text.Draw(t, "prefix")}
			copy(k.Fixed[:], text.Draw(t, "fixed"))
			copy(k.FDict[:], text.Draw(t, "fdict"))
			copy(k.Old[:], text.Draw(t, "old"))
			if rapid.Bool().Draw(t, "maybe") {
				s, n := text.Draw(t, "s"), number.Draw(t, "n")
				k.Maybe, k.MaybeN = &s, &n
			}
			if rapid.Bool().Draw(t, "sub") {
				k.Sub = &sub{Y: int32(number.Draw(t, "y"))}
				if rapid.Bool().Draw(t, "x") {
					x, flag := rapid.Float64().Draw(t, "x"), rapid.Bool().Draw(t, "flag")
					k.Sub.X, k.Sub.Flag = &x, &flag
				}
			}
			kinds[i] = k
		}
		stride := rapid.SampledFrom([]int{1, 7, 100}).Draw(t, "stride")
		want := make([][]string, len(rows))
		for i := range rows {
			rows[i] = kinds[i/stride%len(kinds)]
			rows[i].I32 += int32(i * i)
			rows[i].Plain += fmt.Sprint(i % 13)
			want[i] = rows[i].texts()
		}
		codec := rapid.SampledFrom([]string{"none", "snappy", "gzip", "brotli", "zstd", "lz4"}).Draw(t, "codec")
		options := []writer.WriterOption{writer.DataPageVersion(rapid.IntRange(1, 2).Draw(t, "version")),
			writer.PageBufferSize(rapid.SampledFrom([]int{100, 5000, 1 << 20}).Draw(t, "page")),
			writer.MaxRowsPerRowGroup(rapid.SampledFrom([]int64{50, 10000}).Draw(t, "group"))}
		if c := codecs[codec]; c != nil {
			options = append(options, writer.Compression(c))
		}
		file := write(t, rows, options...)
		got, err := readAll(file, 64<<20, math.MaxInt64)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, append([][]string{}, got...)); diff != "" {
			t.Fatal(diff)
		}
		column := rapid.IntRange(0, len(kinds[0].texts())-1).Draw(t, "column")
		got, err = readAll(file, 64<<20, math.MaxInt64, column)
		if err != nil || len(got) != len(want) {
			t.Fatal(len(got), err)
		}
		for i := range got {
			if got[i][0] != want[i][column] {
				t.Fatalf("column %d, row %d: %q, want %q", column, i, got[i][0], want[i][column])
			}
		}
	})
}

func TestColumns(t *testing.T) {
	type others struct {
		Dec   int64    `parquet:"dec,decimal(2:10)"`
		Date  int32    `parquet:"date,date"`
		Milli int64    `parquet:"milli,timestamp(millisecond)"`
		Nano  int64    `parquet:"nano,timestamp(nanosecond)"`
		U     uint32   `parquet:"u"`
		ID    [16]byte `parquet:"id,uuid"`
		List  []int32  `parquet:"list,list"`
		Sub   struct {
			Deep struct {
				X *string `parquet:"x,optional"`
			} `parquet:"deep"`
		} `parquet:"sub"`
	}
	var b bytes.Buffer
	w := writer.NewGenericWriter[others](&b)
	if _, err := w.Write(make([]others, 3)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := parquet.Open(bytes.NewReader(b.Bytes()), int64(b.Len()))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range f.Columns {
		got = append(got, fmt.Sprint(c.Name, " ", c.Kind, " ", c.Meaning, " ", c.Scale, " ", c.Repeated))
	}
	want := []string{
		fmt.Sprint("dec ", parquet.Int64, " ", parquet.Decimal, " 2 false"),
		fmt.Sprint("date ", parquet.Int32, " ", parquet.Date, " 0 false"),
		fmt.Sprint("milli ", parquet.Int64, " ", parquet.Millis, " 0 false"),
		fmt.Sprint("nano ", parquet.Int64, " ", parquet.Nanos, " 0 false"),
		fmt.Sprint("u ", parquet.Int32, " ", parquet.Unsigned, " 0 false"),
		fmt.Sprint("id ", parquet.FixedLenByteArray, " ", parquet.UUID, " 0 false"),
		fmt.Sprint("list.list.element ", parquet.Int32, " ", parquet.Plain, " 0 true"),
		fmt.Sprint("sub.deep.x ", parquet.ByteArray, " ", parquet.Plain, " 0 false"),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func BenchmarkRead(b *testing.B) {
	rows := make([]row, 100_000)
	for i := range rows {
		rows[i] = row{D64: int64(i % 100), Plain: fmt.Sprint("text ", i), I64: int64(i * 7), Dict: fmt.Sprint(i % 50),
			Double: float64(i)}
	}
	file := write(b, rows, writer.Compression(&writer.Snappy))
	b.SetBytes(int64(len(file)))
	b.ReportAllocs()
	for b.Loop() {
		f, err := parquet.Open(bytes.NewReader(file), int64(len(file)))
		if err != nil {
			b.Fatal(err)
		}
		budget := parquet.Budget(64 << 20)
		var readers []*parquet.Reader
		for i := range f.Columns {
			readers = append(readers, f.Reader(i, &budget))
		}
		for {
			n, err := f.Next(readers)
			if err == io.EOF {
				break
			}
			for range n {
				for _, r := range readers {
					if _, err := r.Next(); err != nil {
						b.Fatal(err)
					}
				}
			}
		}
	}
}
