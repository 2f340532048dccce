package query

import (
	"bytes"
	"context"
	"io"
	"os"
	"strings"
	"testing"

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

// parquetFile returns a file of testdata. TestFilesOfQueries in the package parquettest writes them.
func parquetFile(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name + ".parquet")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestParquet(t *testing.T) {
	file := parquetFile(t, "types")
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
	file := parquetFile(t, "zeros")
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
	a, err := askParquet(t, parquetFile(t, "groups"), "SELECT SUM(id) FROM BlobStorage", "")
	if err != nil || a.data != "760761\n" {
		t.Errorf("%q, %v", a.data, err)
	}
}

// TestDamagedParquet cuts and changes a file: an error is an answer, a panic is not.
func TestDamagedParquet(t *testing.T) {
	file := parquetFile(t, "small")
	for i := 0; i < len(file); i += 3 {
		bad := bytes.Clone(file)
		bad[i] ^= [...]byte{0x01, 0x80, 0xff}[i%7%3]
		_, _ = askParquet(t, bad, "SELECT * FROM BlobStorage", "")
		_, _ = askParquet(t, file[:i], "SELECT * FROM BlobStorage", "")
	}
}
