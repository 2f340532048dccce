package httpserver

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/httpserver/headercase"
	"github.com/lazuli-storage/lazuli/internal/httpserver/statusline"
)

// overBoth runs a test with a server over http and one over https. connect opens a connection to it, as a client that
// has verified the certificate.
func overBoth(t *testing.T, h http.Handler, test func(t *testing.T, addr string, connect func() net.Conn)) {
	t.Helper()
	overBothWithin(t, h, &defaultLinger, test)
}

// overBothWithin is overBoth with limits of what is read after an answer.
func overBothWithin(t *testing.T, h http.Handler, limits *lingerLimits,
	test func(t *testing.T, addr string, connect func() net.Conn)) {
	cert, pool := selfSigned(t)
	for name, o := range map[string]Options{"http": {},
		"https": {TLS: &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2"}}}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr := serveWithin(t, h, o, limits)
			test(t, addr, func() net.Conn {
				c := dial(t, addr)
				if o.TLS == nil {
					return c
				}
				secure := tls.Client(c, &tls.Config{RootCAs: pool, ServerName: "127.0.0.1", NextProtos: []string{"h2", "http/1.1"}})
				if err := secure.Handshake(); err != nil {
					t.Fatal(err)
				}
				if got := secure.ConnectionState().NegotiatedProtocol; got != "" {
					t.Errorf("the server offers %s", got)
				}
				return secure
			})
		})
	}
}

func serveHandler(t *testing.T, h http.Handler, o Options) string {
	t.Helper()
	return serveWithin(t, h, o, &defaultLinger)
}

func serveWithin(t *testing.T, h http.Handler, o Options, limits *lingerLimits) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := newServer(h, slog.New(slog.DiscardHandler), 0, limits)
	go func() { _ = Serve(server, l, o) }()
	t.Cleanup(func() { _ = server.Close() })
	return l.Addr().String()
}

// send sends text and returns all that the server answers until it closes the connection.
func send(t *testing.T, c net.Conn, text string) string {
	t.Helper()
	go func() { _, _ = io.WriteString(c, text) }() // the server may close the connection before it has read all
	answer, _ := io.ReadAll(c)
	return string(answer)
}

func TestNamesOfMetadataKeepTheirCase(t *testing.T) {
	t.Parallel()
	overBoth(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header()["X-Secure"] = []string{fmt.Sprint(r.TLS != nil && r.TLS.HandshakeComplete)}
		_, _ = io.WriteString(w, headercase.Original(r.Context(), "x-ms-meta-name"))
	}), func(t *testing.T, addr string, connect func() net.Conn) {
		answer := send(t, connect(), "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nX-mS-Meta-NaMe: v\r\n\r\n")
		if !strings.HasSuffix(answer, "\r\n\r\nX-mS-Meta-NaMe") {
			t.Error(answer)
		}
		if want := "X-Secure: " + fmt.Sprint(strings.HasSuffix(t.Name(), "/https")); !strings.Contains(answer, want) {
			t.Errorf("%s, want %s", answer, want)
		}
	})
}

func TestHeadThatIsTooLong(t *testing.T) {
	t.Parallel()
	overBoth(t, http.NotFoundHandler(), func(t *testing.T, _ string, connect func() net.Conn) {
		for _, length := range []int{2 * maxHeader, 20 * maxHeader} {
			answer := send(t, connect(), "GET / HTTP/1.1\r\nHost: x\r\nX-Long: "+strings.Repeat("x", length)+"\r\n\r\n")
			if answer != requestTooLong {
				t.Errorf("%d bytes: %q", length, answer)
			}
		}
		c := connect() // a client that reads when it has sent all
		if _, err := io.WriteString(c,
			"GET / HTTP/1.1\r\nHost: x\r\nX-Long: "+strings.Repeat("x", 8<<20)+"\r\n\r\n"); err != nil {
			t.Error(err)
		}
		if answer, _ := io.ReadAll(c); string(answer) != requestTooLong {
			t.Errorf("sent before the answer is read: %q", answer)
		}
		answer := send(t, connect(), "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Long: "+
			strings.Repeat("x", maxHeader/2)+"\r\n\r\n")
		if !strings.HasPrefix(answer, "HTTP/1.1 404 Not Found\r\n") {
			t.Errorf("within the limit: %q", answer)
		}
	})
}

// What a blob holds is never taken for a head, wherever the buffers of net/http begin and end.
func TestContentThatLooksLikeAHead(t *testing.T) {
	t.Parallel()
	for _, line := range []string{headTooLong + "Too Large\r\n\r\n",
		"HTTP/1.1 404 Not Found\r\nContent-Length: 99999\r\n\r\n", "HTTP/1.1 100 Continue\r\n\r\n"} {
		content := []byte(strings.Repeat(line, 1<<16/len(line)))
		overBoth(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			statusline.SetReason(w, http.StatusNotFound, "Another phrase.")
			w.Header().Set("Content-Length", fmt.Sprint(len(content)))
			w.(http.Flusher).Flush()
			for rest := content; len(rest) > 0; { // each write begins with what looks like a head
				n := min(len(rest), len(line)*(4096/len(line)))
				_, _ = w.Write(rest[:n])
				rest = rest[n:]
				w.(http.Flusher).Flush()
			}
		}), func(t *testing.T, _ string, connect func() net.Conn) {
			_, body, _ := strings.Cut(send(t, connect(), "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"), "\r\n\r\n")
			if body != string(content) {
				t.Errorf("%q: %d bytes, want %d", line, len(body), len(content))
			}
		})
	}
}

func TestReasonPhrase(t *testing.T) {
	t.Parallel()
	overBoth(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/missing" {
			_, _ = io.Copy(io.Discard, r.Body)
			statusline.SetReason(w, http.StatusNotFound, "The blob\t\u00e9 is missing.\nRequestId:1")
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, strings.Repeat("HTTP/1.1 404 Not Found\r\n", 1000))
			return
		}
		statusline.SetReason(w, http.StatusNotFound, "Not this one.")
		w.WriteHeader(http.StatusAccepted)
	}), func(t *testing.T, _ string, connect func() net.Conn) {
		const missing = " 404 The blob?? is missing.\r\n"
		for request, want := range map[string][]string{
			"GET /missing HTTP/1.1\r\nHost: h\r\n\r\n": {"HTTP/1.1" +
				missing},
			"HEAD /missing HTTP/1.1\r\nHost: h\r\n\r\n": {"HTTP/1.1" +
				missing},
			"GET /missing HTTP/1.0\r\nHost: h\r\n\r\n": {"HTTP/1.0" +
				missing},
			"PUT /missing HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\nab": {"HTTP/1.1 100 Continue\r\n", "HTTP/1.1" + missing},
			"PUT /missing HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\nT: x\r\n\r\n": {"HTTP/1.1" +
				missing},
			"GET / HTTP/1.1\r\nHost: h\r\n\r\n": {"HTTP/1.1 202 Accepted\r\n"},
		} {
			answer := send(t, connect(), request+"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n") // pipelined
			for _, line := range want {
				if !strings.HasPrefix(answer, line) {
					t.Errorf("%q: %.100q, want %q", request, answer, line)
				}
				_, answer, _ = strings.Cut(answer, "\r\n\r\n")
			}
			if strings.Contains(request, "HTTP/1.1") && !strings.Contains(answer, "HTTP/1.1 202 Accepted\r\n") &&
				!strings.HasPrefix(request, "GET / ") {
				t.Errorf("%q: the next answer is missing", request)
			}
		}
	})
}

func TestContentLengthWithTransferEncoding(t *testing.T) {
	t.Parallel()
	overBoth(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, r.URL.Path)
	}), func(t *testing.T, _ string, connect func() net.Conn) {
		const body = "PUT /x HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"
		good := fmt.Sprintf("PUT /good HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		const chunked = "PUT /good HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n0\r\n\r\n"
		for _, head := range []string{
			"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "transfer-encoding:chunked\r\ncontent-length:5\r\n",
			"Content-Length:" + strings.Repeat(" ", 2*maxLine) + "5\r\nTransfer-Encoding: chunked\r\n",
			"Transfer-Encoding:\r\n chunked\r\n",
		} {
			request := "PUT /bad HTTP/1.1\r\nHost: h\r\n" + head + "\r\n0\r\n\r\n"
			for before, name := range map[string]string{"": "alone", good: "after another",
				good + chunked + good: "after others"} {
				answer := send(t, connect(), before+request+good)
				if n := strings.Count(answer, "HTTP/1.1 200 OK"); n != strings.Count(before, "PUT /good") {
					t.Errorf("%q %s: %d are served:\n%s", head, name, n, answer)
				}
				if strings.Count(answer, "HTTP/1.1 400 Bad Request") != 1 || strings.Contains(answer, "/bad") {
					t.Errorf("%q %s:\n%s", head, name, answer)
				}
			}
		}
	})
}

func TestPlainHTTPOnThePortOfHTTPS(t *testing.T) {
	t.Parallel()
	cert, _ := selfSigned(t)
	addr := serve(t, Options{TLS: &tls.Config{Certificates: []tls.Certificate{cert}}})
	if answer := send(t, dial(t, addr), "GET / HTTP/1.1\r\nHost: h\r\n\r\n"); !strings.HasPrefix(answer,
		"HTTP/1.0 400 Bad Request\r\n") {
		t.Errorf("%q", answer)
	}
	if answer := send(t, dial(t, addr), "\x01\x02\x03\x04\x05\x06\x07\x08\x09"); strings.Contains(answer, "HTTP") {
		t.Errorf("%q", answer)
	}
}

// The slot of a connection is free again after a handshake that fails.
func TestFailedHandshakeFreesItsSlot(t *testing.T) {
	t.Parallel()
	cert, pool := selfSigned(t)
	addr := serve(t, Options{MaxConns: 1, TLS: &tls.Config{Certificates: []tls.Certificate{cert}}})
	send(t, dial(t, addr), "GET / HTTP/1.1\r\nHost: h\r\n\r\n")
	c := tls.Client(dial(t, addr), &tls.Config{RootCAs: pool, ServerName: "127.0.0.1"})
	if resp, err := ask(c); err != nil || resp.StatusCode != 200 {
		t.Fatal(resp, err)
	}
}

// A large answer arrives whole over https, where the kernel does not send it.
func TestLargeAnswerOverTLS(t *testing.T) {
	t.Parallel()
	cert, pool := selfSigned(t)
	addr := serve(t, Options{TLS: &tls.Config{Certificates: []tls.Certificate{cert}}})
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool},
		ForceAttemptHTTP2: true}}
	defer client.CloseIdleConnections()
	resp, err := client.Get("https://" + addr)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if got, err := io.ReadAll(resp.Body); err != nil || !bytes.Equal(got, content) || resp.ProtoMajor != 1 {
		t.Errorf("%s: %d bytes, %v", resp.Proto, len(got), err)
	}
}

// FuzzRequestScanner compares the scanner with net/http's own reading of the same bytes.
func FuzzRequestScanner(f *testing.F) {
	for _, text := range []string{
		"GET / HTTP/1.1\r\nHost: h\r\n\r\nPUT / HTTP/1.1\nHost: h\nContent-Length: 3\n\nabcGET / HTTP/1.1\r\nHost: h\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0a;x\r\n0123456789\r\n0\r\nT: " +
			"1\r\n\r\nGET / HTTP/1.0\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n\r\nGET / " +
			"HTTP/1.1\r\nHost: h\r\n\r\n",
		"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\nabcGET / HTTP/1.1\r\nHost: h\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabcGET / HTTP/1.1\r\nHost: h\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: h\r\nContent-Length:\r\n 3\r\n\r\nabc",
	} {
		f.Add([]byte(text), uint8(7))
	}
	f.Fuzz(func(t *testing.T, text []byte, part uint8) {
		s := requestScanner{names: new(headercase.Names)}
		for rest := text; len(rest) > 0; {
			n := min(len(rest), int(part)+1)
			s.scan(rest[:n])
			rest = rest[n:]
		}
		r := bufio.NewReader(bytes.NewReader(text))
		for heads := int64(1); ; heads++ {
			req, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			if s.heads < heads {
				t.Fatalf("%d heads, net/http reads %d", s.heads, heads)
			}
			if refused := s.refused.Load(); refused != 0 && refused <= heads {
				return
			}
			if _, err := io.Copy(io.Discard, req.Body); err != nil {
				return
			}
			if req.Method == http.MethodPost { // as the server does
				for b, err := r.Peek(1); err == nil && (b[0] == '\r' || b[0] == '\n'); b, err = r.Peek(1) {
					_, _ = r.Discard(1)
				}
			}
		}
	})
}
