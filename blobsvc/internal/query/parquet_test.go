package query

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	ownparquet "github.com/lazuli-storage/lazuli/blobsvc/internal/parquet"
	"github.com/lazuli-storage/lazuli/internal/budget"
)

// askParquet runs a query over a Parquet file.
func askParquet(t testing.TB, file []byte, sql, out string) (answer, error) {
	t.Helper()
	request, err := ParseRequest(body(sql, "<Type>parquet</Type>", out), testTime)
	if err != nil {
		return answer{}, err
	}
	q, err := request.Open(budget.New(context.Background(), budget.Request),
		Content{ReaderAt: bytes.NewReader(file), Size: int64(len(file))})
	if err != nil {
		return answer{}, err
	}
	var b bytes.Buffer
	if err := q.Run(&b); err != nil {
		t.Fatal(err)
	}
	return decode(t, b.Bytes()), nil
}

type parquetRow struct {
	ID    int64     `parquet:"id"`
	Name  string    `parquet:"name,dict"`
	Price float64   `parquet:"price"`
	OK    bool      `parquet:"ok"`
	When  time.Time `parquet:"when,timestamp(microsecond)"`
	Maybe *int32    `parquet:"maybe,optional"`
	Cents int64     `parquet:"cents,decimal(2:10)"`
	Sub   struct {
		X uint32 `parquet:"x"`
	} `parquet:"sub"`
}

func parquetFile(t testing.TB, rows ...parquetRow) []byte {
	t.Helper()
	var b bytes.Buffer
	w := parquet.NewGenericWriter[parquetRow](&b, parquet.Compression(&parquet.Snappy), parquet.MaxRowsPerRowGroup(100))
	if _, err := w.Write(rows); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestParquet(t *testing.T) {
	n := int32(-5)
	rows := []parquetRow{
		{ID: 0, Name: "a,b", Price: 1.5, OK: true, When: time.Date(2020, 2, 3, 4, 5, 6, 7e6, time.UTC), Maybe: &n,
			Cents: -105},
		{ID: 1, Name: "c", Price: 2, When: time.Date(1969, 12, 31, 23, 59, 59, 5e8, time.UTC), Cents: 5},
	}
	rows[1].Sub.X = 4e9
	file := parquetFile(t, rows...)
	for _, c := range []struct{ sql, out, want string }{
		{"select * from blobstorage where id < 1;", "", "0,\"a,b\",1.5,true,2020-02-03T04:05:06.007Z,-5,-1.05,0\n"},
		{"SELECT * FROM BlobStorage", jsonLines,
			`{"id":0,"name":"a,b","price":1.5,"ok":true,"when":"2020-02-03T04:05:06.007Z","maybe":-5,"cents":"-1.05","sub.x":0}` + "\n" +
				`{"id":1,"name":"c","price":2,"ok":false,"when":"1969-12-31T23:59:59.500Z","maybe":null,"cents":"0.05","sub.x":4000000000}` + "\n"},
		{"SELECT sub.x, NAME, _1 FROM BlobStorage WHERE maybe IS NULL", "", "4000000000,c,1\n"},
		{"SELECT id FROM BlobStorage WHERE cents > 0 AND when < '2000'", "", "1\n"},
		{"SELECT COUNT(*) FROM BlobStorage", "", "2\n"},
	} {
		a, err := askParquet(t, file, c.sql, c.out)
		if err != nil || a.data != c.want || len(a.errors) > 0 {
			t.Errorf("%s is %q, %v, %v; want %q", c.sql, a.data, a.errors, err, c.want)
		}
	}
}

// TestParquetGroups reads a file of several row groups.
// The pages of all columns that a query reads are bounded together.
func TestParquetMemoryIsBounded(t *testing.T) {
	t.Parallel()
	file := parquetFile(t, make([]parquetRow, 100)...)
	read := func(memory ownparquet.Budget) error {
		p := newParquetReader(bytes.NewReader(file), int64(len(file)), true, budget.New(t.Context(), budget.Request))
		if p.memory != parquetMemory {
			t.Errorf("a query has %d bytes, want %d", p.memory, parquetMemory)
		}
		p.memory = memory
		err := p.open(nil)
		for err == nil {
			_, err = p.next()
		}
		return err
	}
	if err := read(parquetMemory); err != io.EOF {
		t.Error(err)
	}
	if err := read(1000); err == nil || !strings.Contains(err.Error(), "too large to be read together") {
		t.Errorf("with 1000 bytes: %v", err)
	}
}

func TestParquetGroups(t *testing.T) {
	rows := make([]parquetRow, 1234)
	for i := range rows {
		rows[i].ID = int64(i)
	}
	a, err := askParquet(t, parquetFile(t, rows...), "SELECT SUM(id) FROM BlobStorage", "")
	if err != nil || a.data != "760761\n" {
		t.Errorf("%q, %v", a.data, err)
	}
}

// TestDamagedParquet cuts and changes a file: an error is an answer, a panic is not.
func TestDamagedParquet(t *testing.T) {
	file := parquetFile(t, parquetRow{ID: 1, Name: "abc"}, parquetRow{ID: 2})
	for i := 0; i < len(file); i += 3 {
		bad := bytes.Clone(file)
		bad[i] ^= [...]byte{0x01, 0x80, 0xff}[i%7%3]
		_, _ = askParquet(t, bad, "SELECT * FROM BlobStorage", "")
		_, _ = askParquet(t, file[:i], "SELECT * FROM BlobStorage", "")
	}
}
