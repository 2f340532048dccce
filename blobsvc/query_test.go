package blobsvc_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
)

// sqlBody is a request of Query Blob Contents with the usual formats.
func sqlBody(sql string) string {
	return `<?xml version="1.0" encoding="utf-8"?><QueryRequest><QueryType>SQL</QueryType><Expression>` +
		strings.NewReplacer("<", "&lt;", "&", "&amp;").Replace(sql) + `</Expression></QueryRequest>`
}

// TestQueryBlobContents covers what surrounds the query; package query tests the language and the formats.
func TestQueryBlobContents(t *testing.T) {
	t.Parallel()
	f := start(t)
	c := f.container()
	path := c.URL()[len(f.base):] + "/b"
	ask := func(sql, query string, headers ...string) reply {
		t.Helper()
		return f.do(http.MethodPost, path+"?comp=query"+query, sqlBody(sql), headers...)
	}
	const all = "SELECT * FROM BlobStorage"
	ask(all, "").want(t, 404, "BlobNotFound")
	put := func(content string) http.Header {
		t.Helper()
		return f.do(http.MethodPut, path, content, "x-ms-blob-type", "BlockBlob", "x-ms-blob-content-encoding", "gzip",
			"x-ms-blob-content-type", "text/csv", "x-ms-meta-k", "v", "x-ms-tags", "color=red").want(t, 201, "").header
	}
	etag := put("1,uno\n2,due\n").Get("ETag")

	r := ask("SELECT _2 FROM BlobStorage WHERE _1 > 1", "").want(t, 200, "")
	if !strings.HasPrefix(r.body, "Obj\x01") || !strings.Contains(r.body, "due\n") || strings.Contains(r.body, "uno") {
		t.Errorf("answer %q", r.body)
	}
	for name, want := range map[string]string{"Content-Type": "avro/binary", "Content-Encoding": "", "ETag": etag,
		"x-ms-blob-type": "BlockBlob",
		"Accept-Ranges":  "bytes", "x-ms-lease-state": "available", "x-ms-lease-status": "unlocked", "x-ms-meta-k": "v",
		"x-ms-server-encrypted": "true"} {
		if got := strings.Join(r.header[name], ""); got != want && r.header.Get(name) != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}

	snapshot := f.do(http.MethodPut, path+"?comp=snapshot", "").want(t, 201, "").header.Get("x-ms-snapshot")
	put("3,three\n")
	if r := ask(all, "&snapshot="+snapshot).want(t, 200, ""); !strings.Contains(r.body, "1,uno\n2,due\n") {
		t.Errorf("the snapshot answers %q", r.body)
	}

	ask(all, "", "If-Match", `"0x1"`).want(t, 412, "ConditionNotMet")
	ask(all, "", "x-ms-if-tags", "color = 'blue'").want(t, 412, "ConditionNotMet")
	ask(all, "", "x-ms-if-tags", "color = 'red'").want(t, 200, "")
	ask(all, "", "x-ms-lease-id", "1f812371-a41d-49e6-b123-f4b542e851c5").want(t, 412, "LeaseNotPresentWithBlobOperation")
	ask("SELECT", "").want(t, 400, "ErrorProcessingQueryExpression")
	ask("SELECT Name FROM BlobStorage", "").want(t, 400, "ErrorProcessingQueryExpression")
	f.do(http.MethodPost, path+"?comp=query", "no XML").want(t, 400, "InvalidXmlDocument")
	f.do(http.MethodPost, path+"?comp=query", strings.Repeat(" ", 1<<20+1)).want(t, 413, "RequestBodyTooLarge")

	f.do(http.MethodPut, path+"?comp=tier", "", "x-ms-access-tier", "Archive").want(t, 200, "")
	ask(all, "").want(t, 409, "BlobArchived")
	f.do(http.MethodPut, path+"2", "", "x-ms-blob-type", "AppendBlob").want(t, 201, "")
	f.do(http.MethodPost, path+"2?comp=query", sqlBody(all)).want(t, 409, "InvalidBlobType")
}

// A query ends when its client has gone.
func TestQueryBlobContentsStops(t *testing.T) {
	t.Parallel()
	f := start(t)
	path := f.container().URL()[len(f.base):] + "/b"
	f.do(http.MethodPut, path, "1\n", "x-ms-blob-type", "BlockBlob").want(t, 201, "")
	hr := f.request(http.MethodPost, path+"?comp=query", sqlBody("SELECT COUNT(*) FROM BlobStorage"))
	hr.RequestURI, hr.RemoteAddr = hr.URL.RequestURI(), "127.0.0.1:1"
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	defer func() {
		if p := recover(); p != http.ErrAbortHandler {
			t.Errorf("the handler ended with %v, want it to abort the answer", p)
		}
	}()
	f.svc.Handler().ServeHTTP(httptest.NewRecorder(), hr.WithContext(ctx))
}

// TestQueryBlobContentsStreams reads the beginning of an answer whose rest is not computed yet: the client takes
// little of a large result, and goes.
func TestQueryBlobContentsStreams(t *testing.T) {
	t.Parallel()
	f := start(t)
	c := f.container()
	path := c.URL()[len(f.base):] + "/big"
	block := strings.Repeat("0123456789,abcdefghijklmnopqrstu\n", 32<<20/33)
	f.do(http.MethodPut, path, block, "x-ms-blob-type", "BlockBlob", "x-ms-version", "2021-12-02").want(t, 201, "")
	hr := f.request(http.MethodPost, path+"?comp=query", sqlBody("SELECT * FROM BlobStorage"))
	resp, err := http.DefaultTransport.RoundTrip(hr)
	if err != nil {
		t.Fatal(err)
	}
	first := make([]byte, 1024)
	if _, err := io.ReadFull(resp.Body, first); err != nil || !strings.HasPrefix(string(first), "Obj\x01") {
		t.Errorf("the answer begins with %q, %v", first[:10], err)
	}
	_ = resp.Body.Close()

	r := f.do(http.MethodPost, path+"?comp=query", sqlBody("SELECT COUNT(*) FROM BlobStorage")).want(t, 200, "")
	if want := strconv.Itoa(len(block)/33) + "\n"; !strings.Contains(r.body, want) {
		t.Errorf("no %q in the answer", want)
	}
}
