package frontend

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
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
	return Operation[*bench, *benchCall]{Name: name, Method: method, On: "x", Comp: comp, Needs: auth.Need{Public: auth.Everyone}, Do: do}
}

// serveBench serves it and returns its address.
func serveBench(t *testing.T, common Common, o ListenOptions) (*bench, string) {
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
	server := NewServer(f, common.Log, 0)
	go func() { _ = Serve(server, l, o) }()
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
	limit := NewLimiter(1)
	b, addr := serveBench(t, Common{Limit: limit}, ListenOptions{})
	first := dial(t, addr)
	send(t, first, "GET "+path+"?comp=wait HTTP/1.1\r\nHost: h\r\n\r\n")
	for b.inside.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	resp, err := http.Get("http://" + addr + path)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	if resp.StatusCode != 503 || resp.Header.Get("x-ms-error-code") != "ServerBusy" || !strings.Contains(string(body), "<Code>ServerBusy</Code>") {
		t.Errorf("beyond the limit: %d %s", resp.StatusCode, body)
	}
	close(b.gate)
	if resp, err := http.ReadResponse(bufio.NewReader(first), nil); err != nil || resp.StatusCode != 200 {
		t.Errorf("within the limit: %v, %v", resp, err)
	}
	for limit.now.Load() != 0 { // the place is given back, also by the refused
		time.Sleep(time.Millisecond)
	}
}

func TestTooManyConnections(t *testing.T) {
	_, addr := serveBench(t, Common{}, ListenOptions{MaxConns: 2})
	head := "GET " + path + "?comp=none HTTP/1.1\r\nHost: h\r\n\r\n"
	ask := func(c net.Conn) (status int, code string, err error) {
		if _, err := io.WriteString(c, head); err != nil {
			return 0, "", err
		}
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			return 0, "", err
		}
		return resp.StatusCode, resp.Header.Get("x-ms-error-code"), nil
	}
	one, two := dial(t, addr), dial(t, addr)
	for _, c := range []net.Conn{one, two} {
		if status, _, err := ask(c); status != 400 {
			t.Fatalf("within the limit: %d, %v", status, err)
		}
	}
	if status, code, err := ask(dial(t, addr)); status != 503 || code != "ServerBusy" {
		t.Errorf("beyond the limit: %d %s, %v", status, code, err)
	}
	_ = one.Close()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(time.Millisecond) { // until the server has noticed
		c := dial(t, addr)
		status, code, err := ask(c)
		_ = c.Close()
		if status == 400 {
			return
		}
		// Too many that are turned away at once are closed without an answer, so no answer says nothing yet.
		if err == nil && status != 503 || time.Now().After(deadline) {
			t.Fatalf("after one has left: %d %s, %v", status, code, err)
		}
	}
}

func TestStoppedUploadIsCutOff(t *testing.T) {
	for name, part := range map[string]string{"nothing": "", "a byte": "x", "a byte at a time": "drip"} {
		t.Run(name, func(t *testing.T) {
			b, addr := serveBench(t, Common{Progress: 50 * time.Millisecond}, ListenOptions{})
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
	b, addr := serveBench(t, Common{Progress: progress}, ListenOptions{})
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
	b, addr := serveBench(t, Common{Progress: 50 * time.Millisecond}, ListenOptions{})
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
	b, addr := serveBench(t, Common{Progress: 2 * time.Minute}, ListenOptions{})
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

func TestTLS(t *testing.T) {
	cert, pool := selfSigned(t)
	b, addr := serveBench(t, Common{RequireHTTPS: true}, ListenOptions{TLS: &tls.Config{Certificates: []tls.Certificate{cert}}})
	want, err := os.ReadFile(b.file)
	if err != nil {
		t.Fatal(err)
	}
	for _, h2 := range []bool{false, true} {
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: h2}}
		resp, err := client.Get("https://" + addr + path)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		client.CloseIdleConnections()
		if err != nil || !bytes.Equal(got, want) || (resp.ProtoMajor == 2) != h2 {
			t.Errorf("HTTP/2 %v: %s, %d bytes, %v", h2, resp.Proto, len(got), err)
		}
	}
	if resp, err := http.Get("http://" + addr + path); err != nil || resp.StatusCode != 400 {
		t.Errorf("plain HTTP on the port of https: %v, %v", resp, err)
	}
}

func selfSigned(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

func TestShutdownWithOptions(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := NewServer(http.NotFoundHandler(), slog.New(slog.DiscardHandler), 0)
	done := make(chan error)
	go func() { done <- Serve(server, l, ListenOptions{MaxConns: 1}) }()
	if err := server.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	if err := <-done; !errors.Is(err, http.ErrServerClosed) {
		t.Error(err)
	}
}
