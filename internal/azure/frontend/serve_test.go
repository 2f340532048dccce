package frontend

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/httpserver"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// bench is a service for tests of the server: it takes a body, sends a file, and can be made to wait.
type bench struct {
	file   string
	gate   chan struct{} // a request to ?comp=wait ends when it is closed
	inside atomic.Int32
	readOK chan error // what reading a body came to
}

type benchCall struct{ *wire.Request }

func open(name, method, comp string, do func(*bench, *benchCall) error) Operation[*bench, *benchCall] {
	return Operation[*bench, *benchCall]{Name: name, Method: method, On: "x", Comp: comp,
		Needs: auth.Need{Public: auth.Everyone}, Do: do}
}

// serveBench serves it and returns its address.
func serveBench(t *testing.T, common Common, o httpserver.Options) (*bench, string) {
	t.Helper()
	b := &bench{file: filepath.Join(t.TempDir(), "content"), gate: make(chan struct{}), readOK: make(chan error, 100)}
	if err := os.WriteFile(b.file, bytes.Repeat([]byte("0123456789abcdef"), 1<<18), 0o600); err != nil { // 4 MiB
		t.Fatal(err)
	}
	common.Accounts, common.Log = auth.Development(), slog.New(slog.DiscardHandler)
	f := New(Config[*bench, *benchCall]{Service: wire.Blob, State: b, Render: wire.RenderXML, Common: common,
		Resolve: func(_ *bench, r *wire.Request) (*benchCall, Level, error) { return &benchCall{r}, "x", nil },
		Operations: []Operation[*bench, *benchCall]{
			open("Put", "PUT", "", func(b *bench, c *benchCall) error {
				_, err := io.Copy(io.Discard, c.HTTP.Body)
				b.readOK <- err
				if err != nil {
					return wire.BodyError(err)
				}
				return c.Status(201)
			}),
			open("Get", "GET", "", func(b *bench, c *benchCall) error {
				f, err := os.Open(b.file)
				if err != nil {
					return err
				}
				defer f.Close()
				c.SetInt("Content-Length", 4<<20)
				c.Set("Content-Type", "application/octet-stream")
				c.Out.WriteHeader(200)
				_, err = io.CopyN(c.Out, f, 4<<20)
				b.readOK <- err
				return err
			}),
			open("Wait", "GET", "wait", func(b *bench, c *benchCall) error {
				b.inside.Add(1)
				<-b.gate
				return c.Status(200)
			}),
		}})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := httpserver.New(f, common.Log, 0)
	go func() { _ = httpserver.Serve(server, l, o) }()
	t.Cleanup(func() { _ = server.Close() })
	return b, l.Addr().String()
}

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(2 * time.Minute)) // a test that hangs fails
	return c
}

func send(t *testing.T, c net.Conn, s string) {
	t.Helper()
	if _, err := io.WriteString(c, s); err != nil {
		t.Fatal(err)
	}
}

const path = "/devstoreaccount1/x"

func TestTooManyRequests(t *testing.T) {
	t.Parallel()
	limit := NewLimit(1)
	b, addr := serveBench(t, Common{Limit: limit}, httpserver.Options{})
	first := dial(t, addr)
	send(t, first, "GET "+path+"?comp=wait HTTP/1.1\r\nHost: h\r\n\r\n")
	check.Eventually(t, func() bool { return b.inside.Load() > 0 }, "the request is inside")
	resp, err := http.Get("http://" + addr + path)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	if resp.StatusCode != 503 || resp.Header.Get("x-ms-error-code") != "ServerBusy" ||
		!strings.Contains(string(body), "<Code>ServerBusy</Code>") {
		t.Errorf("beyond the limit: %d %s", resp.StatusCode, body)
	}
	close(b.gate)
	if resp, err := http.ReadResponse(bufio.NewReader(first), nil); err != nil || resp.StatusCode != 200 {
		t.Errorf("within the limit: %v, %v", resp, err)
	}
	check.Eventually(t, func() bool { return limit.all.InUse() == 0 }, "the place is given back, also by the refused")
}

// Requests of one account, however long they take, leave room for those of another. Those that wait for a change take
// none.
func TestOneAccountLeavesRoom(t *testing.T) {
	t.Parallel()
	keys := []auth.Key{check.Must(auth.ParseKey(auth.DevelopmentKey))(t)}
	accounts := check.Must(auth.NewAccounts(auth.Account{Name: "noisy", Keys: keys},
		auth.Account{Name: "calm", Keys: keys}))(t)
	c := Common{Accounts: accounts, Limit: NewLimit(4)}
	leave := func() {}
	for i := range 5 {
		next, ok := c.Enter("noisy")
		if ok != (i < 3) {
			t.Fatalf("request %d of the noisy account is served: %v", i+1, ok)
		}
		if ok {
			leave = next
		}
	}
	c.outside("noisy", func() {
		if again, ok := c.Enter("noisy"); !ok {
			t.Error("a request that waits for a change takes a place")
		} else {
			again()
		}
	})
	last, ok := c.Enter("calm")
	if !ok {
		t.Fatal("the other account has no place")
	}
	if _, ok := c.Enter("calm"); ok {
		t.Error("five requests are served")
	}
	last()
	leave()
	if _, ok := c.Enter("noisy"); !ok {
		t.Error("the place of a request that ended is not free")
	}
	alone := Common{Accounts: auth.Development(), Limit: NewLimit(4)}
	for i := range 4 {
		if _, ok := alone.Enter(auth.DevelopmentAccount); !ok {
			t.Errorf("request %d of the only account is refused", i+1)
		}
	}
}

func TestStoppedUploadIsCutOff(t *testing.T) {
	t.Parallel()
	for name, part := range map[string]string{"nothing": "", "a byte": "x", "a byte at a time": "drip"} {
		t.Run(name, func(t *testing.T) {
			b, addr := serveBench(t, Common{Progress: 50 * time.Millisecond}, httpserver.Options{})
			c := dial(t, addr)
			send(t, c, "PUT "+path+" HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\n")
			stop := make(chan struct{})
			if part == "drip" { // always moving, and never getting anywhere
				go func() {
					tick := time.NewTicker(5 * time.Millisecond)
					defer tick.Stop()
					for {
						select {
						case <-tick.C:
							_, _ = c.Write([]byte("x"))
						case <-stop:
							return
						}
					}
				}()
			} else {
				send(t, c, part)
			}
			if err := <-b.readOK; !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("reading the body ended with %v", err)
			}
			close(stop)
			resp, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil || resp.StatusCode != 400 || resp.Header.Get("x-ms-error-code") != "IncompleteBody" {
				t.Errorf("answer %v, %v", resp, err)
			}
		})
	}
}

// A body that lasts much longer than the time for one part of it is taken whole.
func TestSlowUploadIsTaken(t *testing.T) {
	t.Parallel()
	// A machine that stops for longer than the time for one part breaks the upload off, rightly. It gets more time then.
	var err error
	for _, progress := range []time.Duration{300 * time.Millisecond, 3 * time.Second, 20 * time.Second} {
		if err = slowUpload(t, progress); err == nil {
			return
		}
		t.Logf("with %v for a part: %v", progress, err)
	}
	t.Error(err)
}

func slowUpload(t *testing.T, progress time.Duration) error {
	t.Helper()
	b, addr := serveBench(t, Common{Progress: progress}, httpserver.Options{})
	c := dial(t, addr)
	const parts = 12
	send(t, c, "PUT "+path+" HTTP/1.1\r\nHost: h\r\nContent-Length: 98304\r\n\r\n")
	tick := time.NewTicker(progress / 4)
	defer tick.Stop()
	for range parts {
		<-tick.C
		if _, err := io.WriteString(c, strings.Repeat("x", 98304/parts)); err != nil {
			return err
		}
	}
	if err := <-b.readOK; err != nil {
		return err
	}
	r := bufio.NewReader(c)
	if resp, err := http.ReadResponse(r, nil); err != nil || resp.StatusCode != 201 {
		return fmt.Errorf("%v, %v", resp, err)
	}
	// The connection is good for more, after longer than any deadline that was set.
	<-time.After(2 * progress)
	for _, step := range []struct {
		text   string
		status int
	}{{"PUT " + path + " HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n", 100}, {"x", 201}} {
		if _, err := io.WriteString(c, step.text); err != nil {
			return err
		}
		if resp, err := http.ReadResponse(r, nil); err != nil || resp.StatusCode != step.status {
			return fmt.Errorf("the next request on the connection: %v, %v", resp, err)
		}
	}
	return nil
}

func TestStoppedDownloadIsCutOff(t *testing.T) {
	t.Parallel()
	b, addr := serveBench(t, Common{Progress: 50 * time.Millisecond}, httpserver.Options{})
	c := dial(t, addr)
	_ = c.(*net.TCPConn).SetReadBuffer(4 << 10)
	// Several answers, since the first may fit into the buffers between.
	go func() {
		for range 10 {
			_, _ = io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: h\r\n\r\n")
		}
	}()
	for {
		err := <-b.readOK
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return
		}
		if err != nil {
			t.Fatalf("sending ended with %v", err)
		}
	}
}

func TestDownloadIsWhole(t *testing.T) {
	t.Parallel()
	b, addr := serveBench(t, Common{Progress: 2 * time.Minute}, httpserver.Options{})
	want, err := os.ReadFile(b.file)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		resp, err := http.Get("http://" + addr + path)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%d bytes, %v", len(got), err)
		}
	}
}
