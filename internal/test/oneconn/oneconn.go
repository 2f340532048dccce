// Package oneconn measures requests on one connection that is kept, through the server of HTTP that the services have.
// Its client allocates nothing, so that the allocations of a benchmark are those of the server.
package oneconn

import (
	"bytes"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/httpserver"
)

// Bytes returns a request as a client sends it.
func Bytes(b *testing.B, hr *http.Request) []byte {
	b.Helper()
	var buf bytes.Buffer
	if err := hr.Write(&buf); err != nil {
		b.Fatal(err)
	}
	return buf.Bytes()
}

// Run sends a request again and again, with the changes that next makes to it before the i-th time, from 0 on; next may
// be nil. Each answer has the status, and a Content-Length unless that is 204.
func Run(b *testing.B, h http.Handler, status int, request []byte, next func(request []byte, i int)) {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	server := httpserver.New(h, slog.New(slog.DiscardHandler), 0)
	go func() { _ = httpserver.Serve(server, l, httpserver.Options{}) }()
	defer server.Close()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	head := []byte("HTTP/1.1 " + strconv.Itoa(status) + " ")
	buf := make([]byte, 64<<10)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if next != nil {
			next(request, i)
			i++
		}
		if _, err := conn.Write(request); err != nil {
			b.Fatal(err)
		}
		if n, err := answer(conn, buf); err != nil || !bytes.HasPrefix(buf[:n], head) {
			b.Fatalf("%.500q, %v", buf[:n], err)
		}
	}
}

var lengthHeader = []byte("\r\nContent-Length: ")

// answer reads an answer into buf.
func answer(conn net.Conn, buf []byte) (n int, err error) {
	// The head may come in pieces, and with it some or all of the content.
	for whole := -1; n != whole; {
		if n == len(buf) {
			return n, io.ErrShortBuffer
		}
		m, err := conn.Read(buf[n:])
		if n += m; err != nil {
			return n, err
		}
		end := bytes.Index(buf[:n], []byte("\r\n\r\n"))
		if end < 0 {
			continue
		}
		whole = end + 4
		if at := bytes.Index(buf[:end], lengthHeader); at >= 0 {
			length := 0
			for _, c := range buf[at+len(lengthHeader) : end] {
				if c < '0' || c > '9' {
					break
				}
				length = 10*length + int(c-'0')
			}
			whole += length
		}
	}
	return n, nil
}
