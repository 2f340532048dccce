package blobsvc_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/test/oneconn"
)

// sink is a response writer that keeps nothing.
type sink struct {
	header http.Header
	status int
	n      int64
}

func (w *sink) Header() http.Header    { return w.header }
func (w *sink) WriteHeader(status int) { w.status = status }
func (w *sink) Write(p []byte) (int, error) {
	w.n += int64(len(p))
	return len(p), nil
}

// serve runs a signed request through the service, without a network.
func (f *fixture) serve(b *testing.B, hr *http.Request, content io.Reader, status int) int64 {
	w := sink{header: http.Header{}}
	hr.Body = io.NopCloser(content)
	f.svc.Handler().ServeHTTP(&w, hr)
	if w.status != status {
		b.Fatalf("status %d, want %d", w.status, status)
	}
	return w.n
}

// local makes a request as a server receives it.
func (f *fixture) local(method, path string, n int, headers ...string) *http.Request {
	hr := f.request(method, path, strings.Repeat("x", n), headers...)
	in := httptest.NewRequest(method, strings.TrimPrefix(hr.URL.Opaque, "//"+hr.URL.Host)+"?"+hr.URL.RawQuery, nil)
	in.Header, in.Host, in.ContentLength = hr.Header, hr.Host, hr.ContentLength
	in.RequestURI = strings.TrimSuffix(in.RequestURI, "?")
	return in
}

func BenchmarkPutBlob4K(b *testing.B) {
	f := start(b)
	f.do("PUT", "/box?restype=container", "").want(b, 201, "")
	content := randomBytes(4096)
	b.ReportAllocs()
	b.SetBytes(4096)
	i := 0
	for b.Loop() {
		b.StopTimer()
		hr := f.local("PUT", fmt.Sprintf("/box/blob%08d", i), 4096, "x-ms-blob-type", "BlockBlob")
		i++
		b.StartTimer()
		f.serve(b, hr, bytes.NewReader(content), 201)
	}
}

func BenchmarkGetBlob4K(b *testing.B) {
	f := start(b)
	f.do("PUT", "/box?restype=container", "").want(b, 201, "")
	f.do("PUT", "/box/b", string(randomBytes(4096)), "x-ms-blob-type", "BlockBlob").want(b, 201, "")
	hr := f.local("GET", "/box/b", 0)
	b.ReportAllocs()
	b.SetBytes(4096)
	for b.Loop() {
		f.serve(b, hr, http.NoBody, 200)
	}
}

func BenchmarkPutBlob64M(b *testing.B) {
	f := start(b)
	f.do("PUT", "/box?restype=container", "").want(b, 201, "")
	content := randomBytes(64 << 20)
	hr := f.local("PUT", "/box/b", len(content), "x-ms-blob-type", "BlockBlob")
	b.SetBytes(int64(len(content)))
	for b.Loop() {
		f.serve(b, hr, bytes.NewReader(content), 201)
	}
}

func BenchmarkPutBlock8M(b *testing.B) {
	f := start(b)
	f.do("PUT", "/box?restype=container", "").want(b, 201, "")
	content := randomBytes(8 << 20)
	hr := f.local("PUT", "/box/b?comp=block&blockid=YQ==", len(content))
	b.SetBytes(int64(len(content)))
	for b.Loop() {
		f.serve(b, hr, bytes.NewReader(content), 201)
	}
}

// BenchmarkBulk has the requests of a bulk transfer in a small size, of a few records each: two blocks and their list,
// a single upload, a download.
func BenchmarkBulk(b *testing.B) {
	const block = 3 << 20 / 2
	for _, part := range []string{"blocks", "single", "down"} {
		b.Run(part, func(b *testing.B) {
			f := start(b)
			f.do("PUT", "/box?restype=container", "").want(b, 201, "")
			content := randomBytes(2 * block)
			list := `<BlockList><Latest>YQ==</Latest><Latest>Yg==</Latest></BlockList>`
			blocks := []*http.Request{f.local("PUT", "/box/b?comp=block&blockid=YQ==", block),
				f.local("PUT", "/box/b?comp=block&blockid=Yg==", block)}
			commit := f.local("PUT", "/box/b?comp=blocklist", len(list))
			put := f.local("PUT", "/box/b", len(content), "x-ms-blob-type", "BlockBlob")
			get := f.local("GET", "/box/b", 0)
			f.serve(b, put, bytes.NewReader(content), 201)
			b.ReportAllocs()
			b.SetBytes(int64(len(content)))
			for b.Loop() {
				switch part {
				case "blocks":
					for i, hr := range blocks {
						f.serve(b, hr, bytes.NewReader(content[i*block:][:block]), 201)
					}
					f.serve(b, commit, strings.NewReader(list), 201)
				case "single":
					f.serve(b, put, bytes.NewReader(content), 201)
				default:
					f.serve(b, get, http.NoBody, 200)
				}
			}
		})
	}
}

// BenchmarkOneConnection has requests of 4 KiB through the server of HTTP.
func BenchmarkOneConnection(b *testing.B) {
	f := start(b)
	f.do("PUT", "/box?restype=container", "").want(b, 201, "")
	content := string(randomBytes(4096))
	b.Run("put", func(b *testing.B) {
		request := oneconn.Bytes(b, f.request("PUT", "/box/b", content, "x-ms-blob-type", "BlockBlob"))
		oneconn.Run(b, f.svc.Handler(), 201, request, nil)
	})
	b.Run("get", func(b *testing.B) {
		f.do("PUT", "/box/b", content, "x-ms-blob-type", "BlockBlob").want(b, 201, "")
		oneconn.Run(b, f.svc.Handler(), 200, oneconn.Bytes(b, f.request("GET", "/box/b", "")), nil)
	})
}

func BenchmarkListPage5000(b *testing.B) {
	f := start(b)
	f.do("PUT", "/box?restype=container", "").want(b, 201, "")
	for i := range 5000 {
		f.do("PUT", fmt.Sprintf("/box/folder%02d/blob%08d", i/100, i), "x", "x-ms-blob-type", "BlockBlob", "x-ms-meta-index",
			fmt.Sprint(i)).want(b, 201, "")
	}
	for name, query := range map[string]string{"flat": "", "metadata": "&include=metadata", "folders": "&delimiter=/"} {
		b.Run(name, func(b *testing.B) {
			hr := f.local("GET", "/box?restype=container&comp=list"+query, 0)
			b.ReportAllocs()
			for b.Loop() {
				b.SetBytes(f.serve(b, hr, http.NoBody, 200))
			}
		})
	}
}
