package httpserver

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// full is a write of net/http's buffer: the head of an answer with a body of n bytes, and the beginning of the body.
func full(n int) []byte {
	head := "HTTP/1.1 200 OK\r\nContent-Length: " + strconv.Itoa(n) + "\r\nServer: x\r\n\r\n"
	return []byte(head + strings.Repeat("a", sendBuffer-len(head)))
}

func TestHeldWriteIsSentWithTheNext(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, sendBuffer, sendBuffer + 1, 1 << 20} {
		own, client := connected(t)
		first, second := full(n+sendBuffer), bytes.Repeat([]byte{'b'}, n)
		if sent, err := own.Write(first); sent != len(first) || err != nil || own.held.buf == nil {
			t.Fatalf("%d bytes of the first write, %v; held: %v", sent, err, own.held.buf != nil)
		}
		done := make(chan error, 1)
		go func() {
			sent, err := own.Write(second)
			if err == nil && sent != n {
				err = fmt.Errorf("%d of %d bytes of the second write", sent, n)
			}
			done <- err
		}()
		got := make([]byte, len(first)+n)
		if _, err := io.ReadFull(client, got); err != nil || !bytes.Equal(got, append(first, second...)) {
			t.Errorf("a second write of %d bytes: %v", n, err)
		}
		if err := <-done; err != nil || own.held.buf != nil {
			t.Errorf("%v; held: %v", err, own.held.buf != nil)
		}
	}
}

// What is not the head of an answer with more to follow is sent at once.
func TestWritesThatAreNotHeld(t *testing.T) {
	t.Parallel()
	whole := full(0)
	_, body, _ := bytes.Cut(whole, []byte("\r\n\r\n"))
	for name, p := range map[string][]byte{
		"a whole answer": bytes.Replace(full(1), []byte("Content-Length: 1"),
			[]byte("Content-Length: "+strconv.Itoa(len(body)-3)), 1)[:sendBuffer],
		"a body":          bytes.Repeat([]byte{'a'}, sendBuffer),
		"an interim head": append([]byte("HTTP/1.1 103 "), full(1 << 20)[:sendBuffer-13]...),
		"another size":    full(1 << 20)[:sendBuffer-1],
		"no length":       bytes.Replace(full(1<<20), []byte("Content-Length"), []byte("Content-Lengtx"), 1),
		"half of a head":  bytes.Replace(full(1<<20), []byte("\r\n\r\n"), []byte("\r\nA: "), 1)[:sendBuffer],
		"no number":       bytes.Replace(full(1<<20), []byte("Length: 1048576"), []byte("Length: x048576"), 1),
		"an empty answer": full(0),
	} {
		own, client := connected(t)
		if n, err := own.Write(p); n != len(p) || err != nil || own.held.buf != nil {
			t.Errorf("%s: %d bytes, %v; held: %v", name, n, err, own.held.buf != nil)
			continue
		}
		if _, err := io.ReadFull(client, make([]byte, len(p))); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestHeldWriteIsSentBeforeAFileAndAtTheEnd(t *testing.T) {
	t.Parallel()
	first := full(1 << 20)
	own, client := connected(t)
	if _, err := own.Write(first); err != nil {
		t.Fatal(err)
	}
	if n, err := (plainConn{own}).ReadFrom(strings.NewReader("file")); n != 4 || err != nil {
		t.Fatal(n, err)
	}
	own.headDue = true
	if _, err := own.Write(first); err != nil {
		t.Fatal(err)
	}
	_ = own.Close()
	got, err := io.ReadAll(client)
	if want := string(first) + "file" + string(first); err != nil || string(got) != want {
		t.Errorf("%d bytes, want %d: %v", len(got), len(want), err)
	}
}

// Answers of all sizes arrive whole over one connection, and what was written before a handler aborts arrives as well.
func TestAnswersOfAllSizes(t *testing.T) {
	t.Parallel()
	server := New(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, _ := strconv.Atoi(r.URL.Path[1:])
		w.Header().Set("Content-Length", strconv.Itoa(n))
		if r.Method == http.MethodHead {
			return
		}
		for _, part := range strings.Split(r.URL.RawQuery, ",") {
			m, err := strconv.Atoi(part)
			if err != nil {
				m = n
			}
			_, _ = w.Write(bytes.Repeat([]byte{'x'}, min(m, n)))
			if n -= min(m, n); r.Method == http.MethodDelete {
				panic(http.ErrAbortHandler)
			}
		}
	}), slog.New(slog.DiscardHandler), 0)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = Serve(server, l, Options{}) }()
	defer server.Close()
	transport := &http.Transport{MaxConnsPerHost: 1}
	defer transport.CloseIdleConnections()
	get := func(method, path string) (string, error) {
		r, err := http.NewRequest(method, "http://"+l.Addr().String()+path, nil)
		if err != nil {
			return "", err
		}
		resp, err := transport.RoundTrip(r)
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		return string(b), err
	}
	for n := 0; n < 3*sendBuffer; n += 1 + n/40 {
		for _, parts := range []string{"", "1,", "3000,3000,", "4096,1,"} {
			if got, err := get("GET", fmt.Sprintf("/%d?%s", n, parts)); err != nil || got != strings.Repeat("x", n) {
				t.Fatalf("%d bytes in parts of %q: %d bytes, %v", n, parts, len(got), err)
			}
		}
		if got, err := get("HEAD", fmt.Sprintf("/%d", n)); err != nil || got != "" {
			t.Fatalf("HEAD: %d bytes, %v", len(got), err)
		}
	}
	if got, err := get("DELETE", "/20000?5000"); err == nil || len(got) < sendBuffer/2 {
		t.Errorf("an aborted answer: %d bytes, %v", len(got), err)
	}
}
