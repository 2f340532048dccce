package httpserver

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
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/httpserver/headercase"
)

// content holds what the tests' handler answers to GET.
var content = bytes.Repeat([]byte("0123456789abcdef"), 1<<16)

// serve serves content until the test ends, and returns the address.
func serve(t *testing.T, o Options) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := New(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Name", headercase.Original(r.Context(), "x-ms-meta-name"))
		_, _ = w.Write(content)
	}), slog.New(slog.DiscardHandler), 0)
	go func() { _ = Serve(server, l, o) }()
	t.Cleanup(func() { _ = server.Close() })
	return l.Addr().String()
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

// ask sends a request on c and reads the answer.
func ask(c net.Conn) (*http.Response, error) {
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: h\r\nX-Ms-Meta-NaMe: v\r\n\r\n"); err != nil {
		return nil, err
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return nil, err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return resp, err
}

func TestConnectionsBeyondTheLimitAreRefused(t *testing.T) {
	t.Parallel()
	addr := serve(t, Options{MaxConns: 2})
	one, two := dial(t, addr), dial(t, addr)
	for _, c := range []net.Conn{one, two} {
		if resp, err := ask(c); err != nil || resp.StatusCode != 200 {
			t.Fatalf("within the limit: %v, %v", resp, err)
		}
	}
	resp, err := ask(dial(t, addr))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(resp.StatusCode, " ", resp.Header.Get("x-ms-error-code")), "503 ServerBusy"; got != want {
		t.Errorf("beyond the limit: %s, want %s", got, want)
	}
	_ = one.Close()
	for deadline := time.Now().Add(2 * time.Minute); ; { // until the server notices
		c := dial(t, addr)
		resp, err := ask(c)
		_ = c.Close()
		if err == nil && resp.StatusCode == 200 {
			return
		}
		// The server closes some refused connections without an answer if there are many at once.
		if err == nil && resp.StatusCode != 503 || time.Now().After(deadline) {
			t.Fatalf("after a connection was closed: %v, %v", resp, err)
		}
	}
}

func selfSigned(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA:        true, BasicConstraintsValid: true}
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

func TestShutdownEndsServe(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := New(http.NotFoundHandler(), slog.New(slog.DiscardHandler), 0)
	done := make(chan error)
	go func() { done <- Serve(server, l, Options{MaxConns: 1}) }()
	if err := server.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	if err := <-done; !errors.Is(err, http.ErrServerClosed) {
		t.Error(err)
	}
}
