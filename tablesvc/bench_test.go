package tablesvc

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	state "github.com/lazuli-storage/lazuli/internal/state/table"
	"github.com/lazuli-storage/lazuli/internal/state/table/entity"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/oneconn"
	"github.com/lazuli-storage/lazuli/internal/test/signer"
)

// The benchmarks call handlers without a connection and without a signature: what is measured is the service, its
// store included, with syncing off.

// bare makes a call as the front-end would. A query's Done gives back the processor that it may have taken.
func bare(b *testing.B, f *fixture, method, path, body string, h ...string) (*call, *httptest.ResponseRecorder) {
	b.Helper()
	hr := httptest.NewRequest(method, "http://127.0.0.1:10002/devstoreaccount1"+path, strings.NewReader(body))
	hr.Header.Set("Accept", "application/json;odata=minimalmetadata")
	hr.Header.Set("Content-Type", "application/json")
	hr.Header.Set("X-Ms-Version", "2019-02-02")
	for i := 0; i+1 < len(h); i += 2 {
		hr.Header.Set(h[i], h[i+1])
	}
	w := httptest.NewRecorder()
	r, err := wire.Parse(wire.Table, hr, w, f.svc.now(), wire.Options{})
	if err != nil {
		b.Fatal(err)
	}
	c, _, err := resolve(f.svc, r)
	if err != nil {
		b.Fatal(err)
	}
	c.caller = auth.Identity{Mechanism: auth.SharedKey}
	return c, w
}

// kilobytes fills a table with entities of 1 KiB.
func kilobytes(b *testing.B, n int) *fixture {
	b.Helper()
	f := start(b)
	f.table("people")
	text := strings.Repeat("x", 900)
	for i := range n {
		r := entity.NewRecord(0, 1000).Append("Text", entity.StringValue(text)).Append("Age", entity.Int32Value(int32(i))).
			Append("Since", entity.TimeValue(entity.MinTicks)).Append("Big", entity.Int64Value(int64(i)))
		_, err := f.svc.state.Write(auth.DevelopmentAccount, "people", &state.Mutation{Change: state.Insert,
			Partition: fmt.Appendf(nil, "p%03d", i/1000), Row: fmt.Appendf(nil, "r%07d", i), Record: r}, f.svc.now())
		check.OK(b, err)
	}
	return f
}

func BenchmarkPointGet(b *testing.B) {
	f := kilobytes(b, 10_000)
	b.ReportAllocs()
	for b.Loop() {
		c, w := bare(b, f, "GET", "/people(PartitionKey='p005',RowKey='r0005500')", "")
		if err := f.svc.queryEntity(c); err != nil || w.Code != http.StatusOK {
			b.Fatal(err, w.Code)
		}
	}
}

func BenchmarkPage1000(b *testing.B) {
	f := kilobytes(b, 10_000)
	b.ReportAllocs()
	for b.Loop() {
		c, w := bare(b, f, "GET", "/people()?$filter=PartitionKey%20eq%20'p005'", "")
		if err := f.svc.queryEntities(c); err != nil {
			b.Fatal(err)
		}
		c.Done()
		b.SetBytes(int64(w.Body.Len()))
	}
}

// BenchmarkReadPage is a page without the recorder of an answer: planning, reading, rendering.
func BenchmarkReadPage(b *testing.B) {
	f := kilobytes(b, 10_000)
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		c, _ := bare(b, f, "GET", "/people()?$filter=PartitionKey%20eq%20'p005'", "")
		q, err := c.parseQuery()
		if err != nil {
			b.Fatal(err)
		}
		p, err := f.svc.read(c, &q, buf[:0])
		if err != nil || p.returned != 1000 {
			b.Fatal(err, p.returned)
		}
		c.Done()
		buf = p.body
	}
	b.SetBytes(int64(len(buf)))
}

func BenchmarkScanWithFilter(b *testing.B) {
	f := kilobytes(b, 10_000)
	b.ReportAllocs()
	for b.Loop() {
		c, _ := bare(b, f, "GET", "/people()?$filter=Age%20eq%20-1", "")
		if err := f.svc.queryEntities(c); err != nil {
			b.Fatal(err)
		}
		c.Done()
	}
}

func BenchmarkInsert(b *testing.B) {
	f := start(b)
	f.table("people")
	text := strings.Repeat("x", 900)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		i++
		c, w := bare(b, f, "POST", "/people",
			fmt.Sprintf(`{"PartitionKey":"p","RowKey":"%09d","Text":"%s","Age":5}`, i, text), "Prefer", "return-no-content")
		if err := f.svc.insertEntity(c); err != nil || w.Code != http.StatusNoContent {
			b.Fatal(err, w.Code)
		}
	}
}

// BenchmarkOneConnection has requests of 1 KiB through the server of HTTP.
func BenchmarkOneConnection(b *testing.B) {
	f := kilobytes(b, 1000)
	signed := func(method, path, body string) []byte {
		hr := check.Must(http.NewRequest(method, f.base+path, strings.NewReader(body)))(b)
		hr.Header.Set("x-ms-date", time.Now().UTC().Format(http.TimeFormat))
		hr.Header.Set("x-ms-version", "2019-02-02")
		hr.Header.Set("Accept", "application/json;odata=minimalmetadata")
		hr.Header.Set("Content-Type", "application/json")
		hr.Header.Set("Prefer", "return-no-content")
		signer.Account{Name: auth.DevelopmentAccount, Key: devSigner, Table: true}.SharedKeyLite(hr, hr.URL.EscapedPath())
		return oneconn.Bytes(b, hr)
	}
	b.Run("insert", func(b *testing.B) {
		const row = "000000000"
		request := signed("POST", "/people", fmt.Sprintf(`{"PartitionKey":"p","RowKey":"%s","Text":"%s","Age":5}`, row,
			strings.Repeat("x", 900)))
		at := bytes.Index(request, []byte(row))
		// The signature does not cover the body.
		oneconn.Run(b, f.svc.Handler(), 204, request, func(request []byte, i int) {
			for j := len(row) - 1; j >= 0; j-- {
				request[at+j] = byte('0' + i%10)
				i /= 10
			}
		})
	})
	b.Run("get", func(b *testing.B) {
		oneconn.Run(b, f.svc.Handler(), 200, signed("GET", "/people(PartitionKey='p000',RowKey='r0000500')", ""), nil)
	})
}

func BenchmarkTransaction100(b *testing.B) {
	f := start(b)
	f.table("people")
	text := strings.Repeat("x", 900)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		i++
		var body strings.Builder
		body.WriteString("--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n")
		for j := range 100 {
			fmt.Fprintf(&body, "--c\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\nPOST "+
				"http://127.0.0.1:10002/devstoreaccount1/people HTTP/1.1\r\n"+
				"Content-Type: application/json\r\nAccept: application/json;odata=minimalmetadata\r\nPrefer: "+
				"return-no-content\r\n\r\n"+
				`{"PartitionKey":"p%d","RowKey":"%03d","Text":"%s","Age":5}`+"\r\n", i, j, text)
		}
		body.WriteString("--c--\r\n--b--\r\n")
		c, w := bare(b, f, "POST", "/$batch", body.String(), "Content-Type", "multipart/mixed; boundary=b")
		if err := f.svc.entityGroupTransaction(c); err != nil || strings.Count(w.Body.String(), "204 No Content") != 100 {
			b.Fatal(err, w.Body.String())
		}
	}
	b.ReportMetric(100*float64(b.N)/b.Elapsed().Seconds(), "entities/s")
}
