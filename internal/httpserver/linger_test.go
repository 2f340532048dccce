package httpserver

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/httpserver/headercase"
)

// refusing answers 409 before it has read anything of the body.
var refusing = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
	const text = "it exists"
	w.Header().Set("Content-Length", fmt.Sprint(len(text)))
	w.WriteHeader(http.StatusConflict)
	_, _ = io.WriteString(w, text)
})

// head is the head of a request whose body has a length, in chunks if it is negative.
func head(length int64, more string) string {
	framing := fmt.Sprintf("Content-Length: %d", length)
	if length < 0 {
		framing = "Transfer-Encoding: chunked"
	}
	return "PUT / HTTP/1.1\r\nHost: h\r\n" + framing + "\r\n" + more + "\r\n"
}

// pour sends n bytes of a body, in pieces of 64 KiB.
func pour(c io.Writer, n int64, chunked bool) error {
	piece := make([]byte, 64<<10)
	for n > 0 {
		p := piece[:min(n, int64(len(piece)))]
		n -= int64(len(p))
		if chunked {
			if _, err := fmt.Fprintf(c, "%x\r\n", len(p)); err != nil {
				return err
			}
		}
		if _, err := c.Write(p); err != nil {
			return err
		}
		if chunked {
			if _, err := io.WriteString(c, "\r\n"); err != nil {
				return err
			}
		}
	}
	if chunked {
		_, err := io.WriteString(c, "0\r\n\r\n")
		return err
	}
	return nil
}

// wantConflict reads the whole answer, which must be the refusal, and the end of the connection.
func wantConflict(t *testing.T, what string, r *bufio.Reader) {
	t.Helper()
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatalf("%s: no answer: %v", what, err)
	}
	body, err := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusConflict || string(body) != "it exists" || err != nil || !resp.Close {
		t.Errorf("%s: %s %q, %v, the connection ends: %v", what, resp.Status, body, err, resp.Close)
	}
	if _, err := r.ReadByte(); err != io.EOF {
		t.Errorf("%s: %v after the answer, want its end", what, err)
	}
}

// unread are requests that are refused before their body is read. What a client with "Expect" or "Connection: close"
// sends reaches net/http's end of a connection by other ways.
var unread = []struct {
	name   string
	length int64
	more   string
}{
	{"300 KB", 300_000, ""}, {"1 MiB", 1 << 20, ""}, {"48 MiB", 48 << 20, ""},
	{"one connection", 48 << 20, "Connection: close\r\n"}, {"one connection, small", 100_000, "Connection: close\r\n"},
	{"chunked", -1, ""}, {"chunked, one connection", -1, "Connection: close\r\n"},
	{"asks and does not wait", 48 << 20, "Expect: 100-continue\r\n"}, {"asks, small", 100_000, "Expect: 100-continue\r\n"},
}

// A client that sends everything before it reads sees the answer, and not a connection that is reset.
func TestRefusalReachesAClientThatOnlySends(t *testing.T) {
	t.Parallel()
	overBoth(t, refusing, func(t *testing.T, _ string, connect func() net.Conn) {
		for _, tt := range unread {
			c := connect()
			n := tt.length
			if n < 0 {
				n = 48 << 20
			}
			if _, err := io.WriteString(c, head(tt.length, tt.more)); err != nil {
				t.Fatal(err)
			}
			if err := pour(c, n, tt.length < 0); err != nil {
				t.Errorf("%s: sending: %v", tt.name, err)
				continue
			}
			wantConflict(t, tt.name, bufio.NewReader(c))
			_ = c.Close()
		}
	})
}

// The answer is there before the body is, and a client that goes on to send is not disturbed.
func TestRefusalIsSentAtOnce(t *testing.T) {
	t.Parallel()
	overBoth(t, refusing, func(t *testing.T, _ string, connect func() net.Conn) {
		for _, tt := range unread {
			c := connect()
			if _, err := io.WriteString(c, head(tt.length, tt.more)); err != nil {
				t.Fatal(err)
			}
			wantConflict(t, tt.name, bufio.NewReader(c))
			if tt.length > 0 {
				if err := pour(c, tt.length, false); err != nil {
					t.Errorf("%s: sending after the answer: %v", tt.name, err)
				}
			}
			_ = c.Close()
		}
	})
}

// A small body is read to its end, and the connection serves the next request.
func TestRefusalOfASmallBodyKeepsTheConnection(t *testing.T) {
	t.Parallel()
	overBoth(t, refusing, func(t *testing.T, _ string, connect func() net.Conn) {
		c := connect()
		answers := bufio.NewReader(c)
		for range 3 {
			if _, err := io.WriteString(c, head(100_000, "")); err != nil {
				t.Fatal(err)
			}
			if err := pour(c, 100_000, false); err != nil {
				t.Fatal(err)
			}
			resp, err := http.ReadResponse(answers, nil)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			if resp.StatusCode != http.StatusConflict || resp.Close {
				t.Errorf("%s, the connection ends: %v", resp.Status, resp.Close)
			}
		}
	})
}

// untilBroken sends until the connection breaks, and returns how much was sent.
func untilBroken(c io.Writer) (sent int64) {
	piece := make([]byte, 64<<10)
	for {
		n, err := c.Write(piece)
		sent += int64(n)
		if err != nil {
			return sent
		}
	}
}

// What a client sends without end is read within the bounds, by whatever framing, and then the connection is broken.
func TestSendersWithoutEnd(t *testing.T) {
	t.Parallel()
	const inBuffers = 64 << 20 // what the system holds of a connection at the most
	limits := defaultLinger
	limits.body, limits.undeclared, limits.head = 8<<20, 4<<20, 2<<20
	overBothWithin(t, refusing, &limits, func(t *testing.T, _ string, connect func() net.Conn) {
		for name, request := range map[string]string{
			"declared":  head(1<<40, ""),
			"in chunks": head(-1, "") + "ffffffffffff\r\n",
			"ambiguous": "PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffff\r\n",
			"no head":   "PUT / HTTP/1.1\r\nHost: h\r\nX-Long: ",
		} {
			c := connect()
			if _, err := io.WriteString(c, request); err != nil {
				t.Fatal(err)
			}
			if sent := untilBroken(c); sent > limits.body+inBuffers {
				t.Errorf("%s: %d bytes were taken", name, sent)
			}
		}
	})
}

// A client that stops, or trickles, holds its connection for a pause, and all in all for the time that there is.
func TestLingeringIsShort(t *testing.T) {
	t.Parallel()
	quick := defaultLinger
	quick.pause = 20 * time.Millisecond
	busy := defaultLinger
	busy.slots, busy.shortTime = NewLimiter(1), 20*time.Millisecond
	busy.slots.Enter() // others linger
	short := defaultLinger
	short.time = 20 * time.Millisecond
	for name, limits := range map[string]*lingerLimits{"no byte in a pause": &quick, "no slot is free": &busy,
		"the time is over": &short} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			overBothWithin(t, refusing, limits, func(t *testing.T, _ string, connect func() net.Conn) {
				c := connect()
				if _, err := io.WriteString(c, head(1<<30, "")); err != nil {
					t.Fatal(err)
				}
				wantConflict(t, name, bufio.NewReader(c))
				began := time.Now()
				for time.Since(began) < time.Minute { // a trickle, far below the least rate
					if _, err := c.Write([]byte("x")); err != nil {
						return
					}
					<-time.After(time.Millisecond)
				}
				t.Error("the connection is open after a minute")
			})
		})
	}
}

// A stop of the server does not wait for clients that still send what was refused.
func TestStopDoesNotWaitForRefusedBodies(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := New(refusing, slog.New(slog.DiscardHandler), 0)
	go func() { _ = Serve(server, l, Options{}) }()
	c := dial(t, l.Addr().String())
	if _, err := io.WriteString(c, head(1<<30, "")); err != nil {
		t.Fatal(err)
	}
	wantConflict(t, "before the stop", bufio.NewReader(c))
	ctx, cancel := context.WithTimeout(t.Context(), defaultLinger.pause-time.Second)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		t.Errorf("the stop: %v", err)
	}
}

// How much of a request has arrived is known whatever the reads cut.
func TestScannerKnowsWhatIsToArrive(t *testing.T) {
	t.Parallel()
	const get, put = "GET / HTTP/1.1\r\nHost: h\r\n\r\n", "PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n"
	const chunks = "PUT / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
	for _, tt := range []struct {
		sent   string
		served int64
		want   int64
	}{
		{get, 1, 0}, {put, 1, 5}, {put + "ab", 1, 3}, {put + "abcde", 1, 0}, {put + "abcde" + put, 1, 0},
		{put + "abcde" + put, 2, 5}, {put + "abcdePUT / HT", 1, 0}, {put + "abcdePUT / HTTP/1.1\r\nHost", 1, 0},
		{chunks, 1, -1}, {chunks + "2\r\nab", 1, -1}, {chunks + "0\r\n", 1, -1}, {chunks + "0\r\n\r\n", 1, 0},
		{chunks + "0\r\nT: x\r\n\r\n" + put + "a", 2, 4}, {get + chunks, 1, 0},
	} {
		for _, size := range []int{1, 7, len(tt.sent)} {
			s := requestScanner{names: new(headercase.Names)}
			for rest := tt.sent; rest != ""; {
				n := min(size, len(rest))
				s.scan([]byte(rest[:n]))
				rest = rest[n:]
			}
			s.served = tt.served
			if got := s.unread(); got != tt.want {
				t.Errorf("%q in reads of %d, request %d: %d, want %d", strings.ReplaceAll(tt.sent, "\r\n", "|"), size,
					tt.served, got, tt.want)
			}
		}
	}
}

// What is dropped takes no memory to speak of. The test does not run beside others, which allocate too.
func TestDroppedBytesTakeNoMemory(t *testing.T) {
	addr := serveHandler(t, refusing, Options{})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	const body = 128 << 20
	for range 4 {
		c := dial(t, addr)
		if _, err := io.WriteString(c, head(body, "")); err != nil {
			t.Fatal(err)
		}
		if err := pour(c, body, false); err != nil {
			t.Fatal(err)
		}
		wantConflict(t, "128 MiB", bufio.NewReader(c))
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 4<<20 {
		t.Errorf("%d bytes of memory for %d that are dropped", n, 4*body)
	}
}
