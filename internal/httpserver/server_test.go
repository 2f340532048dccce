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
	"strings"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/httpserver/headercase"
)

// content is what the tests' handler answers to GET.
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

func TestNamesOfMetadataKeepTheirCase(t *testing.T) {
	t.Parallel()
	resp, err := ask(dial(t, serve(t, Options{})))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := resp.Header.Get("X-Name"), "X-Ms-Meta-NaMe"; got != want {
		t.Errorf("the handler sees %s, want %s", got, want)
	}
}

func TestTLSServesBothVersionsOfHTTP(t *testing.T) {
	t.Parallel()
	cert, pool := selfSigned(t)
	addr := serve(t, Options{TLS: &tls.Config{Certificates: []tls.Certificate{cert}}})
	for _, want := range []int{1, 2} {
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: want == 2}}
		resp, err := client.Get("https://" + addr)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		client.CloseIdleConnections()
		if err != nil || !bytes.Equal(got, content) {
			t.Errorf("HTTP/%d: %d bytes, %v", want, len(got), err)
		}
		if resp.ProtoMajor != want {
			t.Errorf("got %s, want HTTP/%d", resp.Proto, want)
		}
	}
	resp, err := http.Get("http://" + addr)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 400 {
		t.Errorf("plain HTTP on the port of https: %d, want 400", resp.StatusCode)
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

// The same over TLS, in both versions of HTTP, up to the length at which net/http answers by itself.
func TestHeadThatIsTooLongOverTLS(t *testing.T) {
	t.Parallel()
	cert, pool := selfSigned(t)
	addr := serve(t, Options{TLS: &tls.Config{Certificates: []tls.Certificate{cert}}})
	for _, http2 := range []bool{false, true} {
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: http2}}
		for length, want := range map[int]int{maxHeader / 2: http.StatusOK, 2 * maxHeader: http.StatusBadRequest} {
			req, err := http.NewRequest(http.MethodGet, "https://"+addr, nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("X-Long", strings.Repeat("x", length))
			resp, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if resp.StatusCode != want || want == http.StatusBadRequest && !strings.Contains(string(body), "Request Too Long") {
				t.Errorf("HTTP/2 %t, %d bytes: %s", http2, length, resp.Status)
			}
		}
		client.CloseIdleConnections()
	}
}

// A head that is longer than the server reads is answered 400, as by Azure, not 431.
func TestHeadThatIsTooLong(t *testing.T) {
	t.Parallel()
	c := dial(t, serve(t, Options{}))
	go func() {
		_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\nX-Long: "+strings.Repeat("x", 2*maxHeader)+"\r\n\r\n")
	}()
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusBadRequest || !strings.Contains(string(body), "Request Too Long") {
		t.Errorf("%s %s", resp.Status, body)
	}
}
