package bench

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
)

func TestReadResponse(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		method   string
		in       string
		status   int
		body     string
		reusable bool
		err      error
	}{
		{"length", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 200, "hello", true, nil},
		{"length in lower case", "GET", "HTTP/1.1 200 OK\r\ncontent-length:5\r\n\r\nhello", 200, "hello", true, nil},
		{"no reason", "GET", "HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", 200, "", true, nil},
		{"chunked", "GET",
			"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6;ext=1\r\n world\r\n0\r\n\r\n", 200,
			"hello world", true, nil},
		{"chunked with trailer", "GET",
			"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\nA\r\n0123456789\r\n0\r\nX: y\r\n\r\n", 200, "0123456789", true,
			nil},
		{"no content", "DELETE", "HTTP/1.1 204 No Content\r\nContent-Length: 7\r\n\r\n", 204, "", true, nil},
		{"HEAD", "HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n", 200, "", true, nil},
		{"continue first", "PUT", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n", 201, "",
			true, nil},
		{"close", "GET", "HTTP/1.1 200 OK\r\nConnection: Close\r\nContent-Length: 1\r\n\r\nx", 200, "x", false, nil},
		{"until the end", "GET", "HTTP/1.1 200 OK\r\n\r\nall of it", 200, "all of it", false, nil},
		{"HTTP/1.0", "GET", "HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx", 200, "x", false, nil},
		{"nothing", "GET", "", 0, "", false, io.EOF},
		{"cut in the head", "GET", "HTTP/1.1 200 OK\r\nCont", 0, "", false, io.ErrUnexpectedEOF},
		{"cut in the body", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel", 200, "hel", false, io.ErrUnexpectedEOF},
		{"cut in a chunk", "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel", 200, "hel", false,
			io.ErrUnexpectedEOF},
		{"not HTTP", "GET", "SSH-2.0-OpenSSH_9.6 x\r\n\r\n", 0, "", false, errHead},
		{"bad status", "GET", "HTTP/1.1 2x0 OK\r\n\r\n", 0, "", false, errHead},
		{"bad length", "GET", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", 0, "", false, errHead},
		{"bad chunk size", "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n", 200, "", false, errChunk},
		{"chunk longer than it says", "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n", 200,
			"a", false, errChunk},
		{"endless head", "GET", "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 2*maxHead), 0, "", false, errTooLong},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, src := range []io.Reader{strings.NewReader(tt.in), iotest.OneByteReader(strings.NewReader(tt.in))} {
				req := &Request{Method: tt.method, Want: tt.status, Keep: true}
				var res Response
				reusable, err := newReader(src).read(req, &res)
				if !errors.Is(err, tt.err) {
					t.Fatalf("error %v, want %v", err, tt.err)
				}
				if err == nil && reusable != tt.reusable {
					t.Errorf("reusable = %v, want %v", reusable, tt.reusable)
				}
				if res.Status != tt.status || string(res.Body) != tt.body {
					t.Errorf("got %d %q, want %d %q", res.Status, res.Body, tt.status, tt.body)
				}
			}
		})
	}
}

func TestReadResponsesInARow(t *testing.T) {
	t.Parallel()
	in := "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nETag: \"1\"\r\n\r\none" +
		"HTTP/1.1 409 Conflict\r\nTransfer-Encoding: chunked\r\nx-ms-error-code: " +
		"EntityAlreadyExists\r\n\r\n3\r\ntwo\r\n0\r\n\r\n" +
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nthree"
	d := newReader(iotest.HalfReader(strings.NewReader(in)))
	var res Response
	for i, want := range []struct {
		status int
		body   string
		code   string
		etag   string
	}{{200, "one", "", `"1"`}, {409, "two", "EntityAlreadyExists", ""}, {200, "", "", ""}} {
		reusable, err := d.read(&Request{Method: "GET", Want: 200, Keep: i < 1}, &res)
		if err != nil || !reusable {
			t.Fatalf("answer %d: reusable %v, error %v", i, reusable, err)
		}
		// Failures are kept though the request did not ask for it.
		if res.Status != want.status || string(res.Body) != want.body || errorCode(&res) != want.code ||
			string(res.Header("etag")) != want.etag {
			t.Errorf("answer %d: %d %q %q %q", i, res.Status, res.Body, errorCode(&res), res.Header("etag"))
		}
	}
	if res.Size != 5 {
		t.Errorf("size of a dropped body is %d, want 5", res.Size)
	}
}

func TestErrorCode(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ head, body, want string }{
		{"HTTP/1.1 404 X\r\nX-Ms-Error-Code:  BlobNotFound", "", "BlobNotFound"},
		{"HTTP/1.1 404 X", "<Error><Code>QueueNotFound</Code>", "QueueNotFound"},
		{"HTTP/1.1 404 X", `{"odata.error":{"code":"TableNotFound","message"`, "TableNotFound"},
		{"HTTP/1.1 404 X", `<Code>` + strings.Repeat("x", 1000), ""},
		{"HTTP/1.1 404 X", "", ""},
	} {
		if got := errorCode(&Response{Head: []byte(tt.head), Body: []byte(tt.body)}); got != tt.want {
			t.Errorf("errorCode(%q, %q) = %q, want %q", tt.head, tt.body, got, tt.want)
		}
	}
}

// Whatever arrives, reading ends without a panic, and what net/http also accepts reads the same.
func FuzzReadResponse(f *testing.F) {
	f.Add([]byte("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"))
	f.Add([]byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"))
	f.Add([]byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\nT: 1\r\n\r\n"))
	f.Add([]byte("HTTP/1.1 204 No Content\r\n\r\n"))
	f.Add([]byte("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		var res Response
		_, err := newReader(bytes.NewReader(in)).read(&Request{Method: "GET", Want: 200, Keep: true}, &res)
		if err != nil || !plain(res.Head) {
			return
		}
		theirs, body := readWithNetHTTP(in)
		if theirs == nil {
			return // net/http is stricter
		}
		if theirs.StatusCode != res.Status || !bytes.Equal(body, res.Body) {
			t.Fatalf("got %d %q, net/http reads %d %q", res.Status, res.Body, theirs.StatusCode, body)
		}
	})
}

// plain reports whether a head leaves no room for interpretation: HTTP/1.1, no bare line feed, no name twice.
func plain(head []byte) bool {
	lines := strings.Split(string(head), "\r\n")
	seen := map[string]bool{}
	for _, line := range lines[1:] {
		name, _, _ := strings.Cut(strings.ToLower(line), ":")
		if seen[name] || strings.TrimSpace(name) != name {
			return false
		}
		seen[name] = true
	}
	return strings.HasPrefix(lines[0], "HTTP/1.1 ") && !strings.ContainsAny(strings.Join(lines, ""), "\r\n")
}

func readWithNetHTTP(in []byte) (*http.Response, []byte) {
	br := bufio.NewReader(bytes.NewReader(in))
	for {
		res, err := http.ReadResponse(br, &http.Request{Method: "GET"})
		if err != nil {
			return nil, nil
		}
		body, err := io.ReadAll(res.Body)
		if err != nil {
			return nil, nil
		}
		if res.StatusCode >= 200 {
			return res, body
		}
	}
}

func BenchmarkReadResponse(b *testing.B) {
	one :=
		"HTTP/1.1 200 OK\r\nContent-Length: 1024\r\nContent-Type: application/json\r\nx-ms-version: 2021-12-02\r\n\r\n" +
			strings.Repeat("x", 1024)
	in := strings.NewReader(one)
	d := newReader(in)
	req := &Request{Method: "GET", Want: 200}
	var res Response
	b.ReportAllocs()
	for b.Loop() {
		in.Seek(0, io.SeekStart)
		if _, err := d.read(req, &res); err != nil {
			b.Fatal(err)
		}
	}
}
