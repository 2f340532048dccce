package admin

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/devcert"
)

// The admin address answers to http and https, and ends with all that is open.
func TestHTTPAndHTTPS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := devcert.Make(dir, nil, time.Now()); err != nil {
		t.Fatal(err)
	}
	config, err := devcert.ServerConfig(filepath.Join(dir, devcert.ServerCert), filepath.Join(dir, devcert.ServerKey))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, devcert.AuthorityCert))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(text)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	issuer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.URL.Path, " ", r.TLS != nil, " ", r.Proto)
	})
	s := Start(l, Options{TLS: config, Issuer: issuer})
	address := l.Addr().String()
	silent, err := net.Dial("tcp", address) // which never says what it is
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool},
		ForceAttemptHTTP2: true}}
	for _, tc := range []struct{ url, want string }{
		{"http://" + address + "/healthz", "ok\n"},
		{"https://" + address + "/healthz", "ok\n"},
		{"https://" + address + "/oauth/tenant/oauth2/v2.0/token", "/tenant/oauth2/v2.0/token true HTTP/2.0"},
		{"https://" + address + "/tenant/oauth2/v2.0/token", "/tenant/oauth2/v2.0/token true HTTP/2.0"},
		{"http://" + address + "/tenant/v2.0/.well-known/openid-configuration",
			"/tenant/v2.0/.well-known/openid-configuration false HTTP/1.1"},
	} {
		resp, err := client.Get(tc.url)
		if err != nil {
			t.Fatalf("%s: %v", tc.url, err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if string(body) != tc.want {
			t.Errorf("%s: %q, want %q", tc.url, body, tc.want)
		}
	}
	client.CloseIdleConnections()
	for range 2 {
		if err := s.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	}
	_ = silent.SetReadDeadline(time.Now().Add(2 * time.Minute))
	if _, err := silent.Read(make([]byte, 1)); err == nil || os.IsTimeout(err) {
		t.Errorf("the silent connection: %v", err)
	}
}
