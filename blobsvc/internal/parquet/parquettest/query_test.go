package parquettest

import (
	"bytes"
	"flag"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	writer "github.com/parquet-go/parquet-go"
)

var update = flag.Bool("update", false, "write the files that the tests of queries read")

// queryRow has a column of each type that a query tells apart.
type queryRow struct {
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

// The files that the tests of package query read hold these rows; with -update they are written.
func TestFilesOfQueries(t *testing.T) {
	t.Parallel()
	n := int32(-5)
	types := []queryRow{
		{ID: 0, Name: "a,b", Price: 1.5, OK: true, When: time.Date(2020, 2, 3, 4, 5, 6, 7e6, time.UTC), Maybe: &n,
			Cents: -105},
		{ID: 1, Name: "c", Price: 2, When: time.Date(1969, 12, 31, 23, 59, 59, 5e8, time.UTC), Cents: 5},
	}
	types[1].Sub.X = 4e9
	epoch := time.Unix(0, 0).UTC() // The zero time does not fit into a column.
	zeros, groups := make([]queryRow, 100), make([]queryRow, 1234)
	for i := range zeros {
		zeros[i].When = epoch
	}
	for i := range groups {
		groups[i].ID, groups[i].When = int64(i), epoch
	}
	for name, rows := range map[string][]queryRow{"types": types, "zeros": zeros, "groups": groups,
		"small": {{ID: 1, Name: "abc", When: epoch}, {ID: 2, When: epoch}}} {
		path := "../../query/testdata/" + name + ".parquet"
		if *update {
			var b bytes.Buffer
			w := writer.NewGenericWriter[queryRow](&b, writer.Compression(&writer.Snappy), writer.MaxRowsPerRowGroup(100))
			if _, err := w.Write(rows); err != nil {
				t.Fatal(err)
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := writer.ReadFile[queryRow](path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(rows, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
