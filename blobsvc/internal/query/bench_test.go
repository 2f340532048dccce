package query

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/budget"
)

// BenchmarkScan scans 32 MiB of records of about 100 bytes. The SDKs' own decoders are far slower.
func BenchmarkScan(b *testing.B) {
	csv := strings.Repeat("1234567,Ada Lovelace,1815-12-10,London,36.5,mathematician,true,some more text to fill the "+
		"line\n", 32<<20/95)
	json := strings.Repeat(
		`{"id":1234567,"name":"Ada Lovelace","born":"1815-12-10","age":36.5,"tags":["a","b"],"text":"some more text"}`+"\n",
		32<<20/109)
	for _, c := range []struct{ name, content, sql, in string }{
		{"csv all", csv, "SELECT * FROM BlobStorage", ""},
		{"csv where", csv, "SELECT _2 FROM BlobStorage WHERE _1 > 9999999", ""},
		{"csv last column", csv, "SELECT _8 FROM BlobStorage WHERE _2 LIKE 'Ada%'", ""},
		{"csv count", csv, "SELECT COUNT(*) FROM BlobStorage", ""},
		{"csv sum", csv, "SELECT SUM(CAST(_5 AS FLOAT)) FROM BlobStorage", ""},
		{"json all", json, "SELECT * FROM BlobStorage", jsonLines},
		{"json where", json, "SELECT name FROM BlobStorage WHERE age > 90", jsonLines},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(int64(len(c.content)))
			b.ReportAllocs()
			for b.Loop() {
				r, err := ParseRequest(body(c.sql, c.in, ""), testTime)
				if err != nil {
					b.Fatal(err)
				}
				q, err := r.Open(budget.New(context.Background(), budget.Request),
					Content{Reader: strings.NewReader(c.content), Size: int64(len(c.content))})
				if err != nil {
					b.Fatal(err)
				}
				if err := q.Run(io.Discard); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
