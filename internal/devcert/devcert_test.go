package devcert

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"software.sslmate.com/src/go-pkcs12"
)

func mustMake(t *testing.T, dir string, extra []string, now time.Time) Result {
	t.Helper()
	r, err := Make(dir, extra, now)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestMake(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "certs")
	now := time.Now()
	if r := mustMake(t, dir, nil, now); !r.NewAuthority || !r.NewServer {
		t.Errorf("first: %+v", r)
	}
	for name, mode := range map[string]fs.FileMode{AuthorityCert: 0o644, AuthorityKey: 0o600, ServerCert: 0o644,
		ServerKey: 0o600} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: mode %v, want %v; %v", name, info.Mode(), mode, err)
		}
	}
	if r := mustMake(t, dir, nil, now.Add(24*time.Hour)); r.NewAuthority || r.NewServer {
		t.Errorf("a day later: %+v", r)
	}
	if r := mustMake(t, dir, []string{"nas.local"}, now); r.NewAuthority || !r.NewServer {
		t.Errorf("another host: %+v", r)
	}
	if r := mustMake(t, dir, nil, now.Add(serverLife-24*time.Hour)); r.NewAuthority || !r.NewServer {
		t.Errorf("a day before the certificate's end: %+v", r)
	}
	if r := mustMake(t, dir, nil, now.Add(authorityLife)); !r.NewAuthority || !r.NewServer {
		t.Errorf("at the authority's end: %+v", r)
	}
	if _, err := Make(dir, []string{"example.com"}, now); err == nil {
		t.Error("a name of the Internet is taken")
	}
	if err := os.WriteFile(filepath.Join(dir, AuthorityKey), []byte("garbage"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Make(dir, nil, now); err == nil {
		t.Error("a broken key is replaced without a word")
	}
}

func TestAllowed(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]bool{
		"localhost": true, "*.blob.localhost": true, "dev.test": true, "host.docker.internal": true, "lazuli": true,
		"192.168.1.2": true, "::1": true, "devstoreaccount1.dfs.core.windows.net": true,
		"Shop-secondary.BLOB.core.windows.net": true, "*.blob.core.windows.net": false, "blob.core.windows.net": false,
		"core.windows.net": false, "*.shop.blob.core.windows.net": false, "a.shop.blob.core.windows.net": false,
		"shop.file.core.windows.net": false, "shop.blob.core.windows.net.example.com": false,
		"example.com": false, "localhost.example.com": false, "8.8.8.8": false, "": false, "*": false, "a b.test": false,
		"x.test.": false, "../x.test": false,
	} {
		if got := Allowed(host); got != want {
			t.Errorf("%q: %v", host, got)
		}
	}
}

// A client that trusts the authority takes the certificate for every host, by the names that SDKs use.
func TestTrust(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	mustMake(t, dir, []string{"nas.local", "192.168.7.7"}, time.Now())
	text, err := os.ReadFile(filepath.Join(dir, AuthorityCert))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(text)
	leaf, _, err := load(dir, ServerCert, ServerKey)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"localhost": true, "127.0.0.1": true, "[::1]": true,
		"devstoreaccount1.blob.localhost":            true,
		"devstoreaccount1-secondary.table.localhost": true, "nas.local": true, "192.168.7.7": true, "lazuli": true,
		"example.com": false, "192.168.7.8": false, "a.b.blob.localhost": false} {
		if _, err := leaf.Verify(x509.VerifyOptions{DNSName: name, Roots: pool}); (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
	// The authority cannot be used for another site, even with its key.
	ca, caKey, err := load(dir, AuthorityCert, AuthorityKey)
	if err != nil {
		t.Fatal(err)
	}
	evil, err := makeServer(t.TempDir(), ca, caKey, []string{"example.com"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := evil.Verify(x509.VerifyOptions{DNSName: "example.com", Roots: pool}); err == nil {
		t.Error("the authority's certificate for example.com is trusted")
	}
}

// The hosts of an account on Azure are named one by one: the authority can sign for them, and for no other account.
func TestAccountHosts(t *testing.T) {
	t.Parallel()
	dir, now := t.TempDir(), time.Now()
	const dfs, blob = "shop.dfs.core.windows.net", "shop.blob.core.windows.net"
	mustMake(t, dir, nil, now)
	if r := mustMake(t, dir, []string{dfs}, now); !r.NewAuthority || !r.NewServer {
		t.Errorf("with a first host: %+v", r)
	}
	if r := mustMake(t, dir, []string{dfs, blob}, now); !r.NewAuthority || !r.NewServer {
		t.Errorf("with a second host: %+v", r)
	}
	for _, hosts := range [][]string{{blob}, nil, {"SHOP.dfs.core.windows.net"}} {
		if r := mustMake(t, dir, hosts, now); r.NewAuthority || r.NewServer {
			t.Errorf("again with %v: %+v", hosts, r)
		}
	}
	ca, caKey, err := load(dir, AuthorityCert, AuthorityKey)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(ca)
	const other = "other.dfs.core.windows.net"
	leaf, err := makeServer(t.TempDir(), ca, caKey, []string{dfs, blob}, now)
	if err != nil {
		t.Fatal(err)
	}
	evil, err := makeServer(t.TempDir(), ca, caKey, []string{other}, now)
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{dfs, blob} {
		if _, err := leaf.Verify(x509.VerifyOptions{DNSName: host, Roots: pool}); err != nil {
			t.Errorf("%s: %v", host, err)
		}
	}
	if _, err := evil.Verify(x509.VerifyOptions{DNSName: other, Roots: pool}); err == nil {
		t.Error("the authority's certificate for another account is trusted")
	}
}

func TestServerConfig(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	mustMake(t, dir, nil, time.Now())
	cert, key := filepath.Join(dir, ServerCert), filepath.Join(dir, ServerKey)
	c, err := ServerConfig(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{TLSConfig: c,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Proto) })}
	go func() { _ = server.ServeTLS(l, "", "") }()
	defer server.Close()
	pool := x509.NewCertPool()
	text, _ := os.ReadFile(filepath.Join(dir, AuthorityCert))
	pool.AppendCertsFromPEM(text)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool},
		ForceAttemptHTTP2: true}}
	defer client.CloseIdleConnections()
	resp, err := client.Get("https://" + l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, _ := io.ReadAll(resp.Body); string(body) != "HTTP/2.0" {
		t.Errorf("protocol %s", body)
	}
	for _, bad := range [][2]string{{cert, filepath.Join(dir, AuthorityKey)}, {"absent", key}} {
		if _, err := ServerConfig(bad[0], bad[1]); err == nil {
			t.Errorf("%v is taken", bad)
		}
	}
}

func TestServerConfigFollowsItsFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	mustMake(t, dir, nil, time.Now())
	cert, key := filepath.Join(dir, ServerCert), filepath.Join(dir, ServerKey)
	p := &pair{files: []string{cert, key}, load: func() (tls.Certificate, error) { return tls.LoadX509KeyPair(cert, key) }}
	if err := p.read(); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	p.checked = now
	first := p.current(now)
	mustMake(t, dir, []string{"new.test"}, time.Now())
	future := time.Now().Add(time.Minute)
	if err := os.Chtimes(cert, future, future); err != nil {
		t.Fatal(err)
	}
	if p.current(now.Add(time.Second)) != first {
		t.Error("the files are looked at for each connection")
	}
	second := p.current(now.Add(time.Minute))
	if second == first {
		t.Error("the new certificate is not served")
	}
	if err := os.WriteFile(cert, []byte("garbage"), 0o644); err != nil {
		t.Fatal(err)
	}
	if p.current(now.Add(2*time.Minute)) != second {
		t.Error("a broken file takes the certificate away")
	}
}

// A PFX file has certificate, chain and key; a wrong password and another kind of file are errors that say so.
func TestServerConfigPFX(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	mustMake(t, dir, nil, time.Now())
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, ServerCert), filepath.Join(dir, ServerKey))
	if err != nil {
		t.Fatal(err)
	}
	for name, encoder := range map[string]*pkcs12.Encoder{"modern": pkcs12.Modern, "legacy": pkcs12.LegacyRC2} {
		data, err := encoder.Encode(pair.PrivateKey, pair.Leaf, nil, "secret")
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, name+".pfx")
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := ServerConfigPFX(file, "secret")
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got, err := c.GetCertificate(nil); err != nil || !bytes.Equal(got.Certificate[0], pair.Certificate[0]) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
		if _, err := ServerConfigPFX(file, "wrong"); err == nil || !strings.Contains(err.Error(), "password") ||
			strings.Contains(err.Error(), "wrong\"") {
			t.Errorf("%s with a wrong password: %v", name, err)
		}
	}
	if _, err := ServerConfigPFX(filepath.Join(dir, ServerCert), ""); err == nil ||
		!strings.Contains(err.Error(), "not a PFX file") {
		t.Errorf("a PEM file: %v", err)
	}
}
