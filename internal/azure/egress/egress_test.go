package egress

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"
)

func TestAllows(t *testing.T) {
	t.Parallel()
	p := Policy{Hosts: []string{"data.example.com", "*.blob.core.windows.net", "src.test:8080", "10.1.2.3",
		"[fd00::1]:9000"}}
	if err := p.Validate(); err != nil {
		t.Fatal(err)
	}
	for address, want := range map[string]bool{
		"https://data.example.com/x": true, "http://DATA.example.com./x": true, "https://data.example.com:443/": true,
		"https://a.blob.core.windows.net/c/b": true, "http://src.test:8080/": true, "http://10.1.2.3/": true,
		"http://[::ffff:10.1.2.3]/": true,
		"http://[fd00::1]:9000/":    true,

		"https://data.example.com:8443/":                  false,
		"http://src.test/":                                false,
		"https://blob.core.windows.net/":                  false,
		"https://evilblob.core.windows.net/":              false,
		"https://data.example.com.evil.com/":              false,
		"https://x@data.example.com/":                     false,
		"https://data.example.com@evil.com/":              false,
		"ftp://data.example.com/":                         false,
		"file:///etc/passwd":                              false,
		"http://127.0.0.1/":                               false,
		"http://169.254.169.254/metadata/instance":        false,
		"http://0x7f.1/":                                  false,
		"http://2130706433/":                              false,
		"//data.example.com/":                             false,
		"https:data.example.com":                          false,
		"https://10.1.2.3.example.com/":                   false,
		"http://[::1]/":                                   false,
		"http://[fd00::1]/":                               false,
		"https://data.example.com%2f.blob.example.com/x":  false,
		"https://data.example.com\\@evil.com/":            false,
		"https://sub.data.example.com/":                   false,
		"gopher://a.blob.core.windows.net/":               false,
		"https://a.blob.core.windows.net.localhost/c/b":   false,
		"http://a.blob.core.windows.net:22/":              false,
		"http://a.blob.core.windows.net:80@10.0.0.1:80/x": false,
	} {
		u, err := url.Parse(address)
		got := err == nil && p.Allows(u) == nil
		if got != want {
			t.Errorf("%s: %v, want %v", address, got, want)
		}
	}
	if u, _ := url.Parse("https://example.com"); (&Policy{}).Allows(u) == nil {
		t.Error("the zero policy allows a host")
	}
	any := Policy{Hosts: []string{"*"}}
	for address, want := range map[string]bool{"https://example.com/": true, "http://127.0.0.1/": false,
		"http://example.com:22/": false} {
		if u, _ := url.Parse(address); (any.Allows(u) == nil) != want {
			t.Errorf("*: %s", address)
		}
	}
	for _, bad := range []string{"", "http://x", "a b", "x:", "*.*"} {
		if (&Policy{Hosts: []string{bad}}).Validate() == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func TestPublic(t *testing.T) {
	t.Parallel()
	for a, want := range map[string]bool{
		"8.8.8.8": true, "2606:4700::1111": true,
		"127.0.0.1": false, "127.8.8.8": false, "10.0.0.1": false, "172.16.0.1": false, "192.168.1.1": false,
		"169.254.169.254": false,
		"0.0.0.0":         false, "0.1.2.3": false, "100.64.0.1": false, "224.0.0.1": false, "255.255.255.255": false,
		"168.63.129.16": false,
		"::":            false, "::1": false, "fe80::1": false, "fd00:ec2::254": false, "ff02::1": false,
		"::ffff:127.0.0.1": false,
		"64:ff9b::7f00:1":  false, "2002:7f00:1::": false,
	} {
		if public(netip.MustParseAddr(a)) != want {
			t.Errorf("%s: %v", a, !want)
		}
	}
}

// The name is allowed, and leads to this machine: as after DNS rebinding.
func TestThisMachine(t *testing.T) {
	t.Parallel()
	p := Policy{ThisMachine: true}
	for address, want := range map[string]bool{
		"http://localhost:7071/x": true, "http://LOCALHOST./": true, "http://127.0.0.1:8080/": true, "https://[::1]/": true,
		"http://127.9.9.9/": true,

		"http://localhost.example.com/": false, "http://x.localhost/": false, "http://10.0.0.1/": false,
		"http://169.254.169.254/": false, "http://example.com/": false, "http://u@localhost/": false,
		"http://0.0.0.0/": false, "ftp://localhost/": false,
	} {
		u, err := url.Parse(address)
		if got := err == nil && p.Allows(u) == nil; got != want {
			t.Errorf("%s: %v, want %v", address, got, want)
		}
	}
	for address, want := range map[string]bool{"127.0.0.1:80": true, "[::1]:80": true, "10.0.0.1:80": false,
		"8.8.8.8:80": false} {
		if got := p.control("tcp", address, nil) == nil; got != want {
			t.Errorf("dial of %s: %v, want %v", address, got, want)
		}
	}
	// A list takes its place.
	p.Hosts = []string{"hooks.example.com"}
	if u, _ := url.Parse("http://localhost/"); p.Allows(u) == nil || p.control("tcp", "127.0.0.1:80", nil) == nil {
		t.Error("a policy with a list allows this machine")
	}
}

func TestAddressIsCheckedWhenDialled(t *testing.T) {
	t.Parallel()
	called := false
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		called = true
		_, _ = io.WriteString(w, "secret")
	}))
	defer server.Close()
	_, port, _ := net.SplitHostPort(server.Listener.Addr().String())
	p := Policy{Hosts: []string{"localhost:" + port}}
	client := p.Client(time.Minute)
	defer client.CloseIdleConnections()
	resp, err := p.Fetch(context.Background(), client, "http://localhost:"+port+"/", nil)
	if err == nil {
		resp.Body.Close()
	}
	if !errors.Is(err, ErrNotPublic) || errors.Is(err, ErrRefused) || called {
		t.Fatalf("%v, called %v", err, called)
	}
	p.Private = true
	resp, err = p.Fetch(context.Background(), client, "http://localhost:"+port+"/",
		http.Header{"X-Ms-Version": {"2021-12-02"}})
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, _ := io.ReadAll(resp.Body); string(body) != "secret" {
		t.Errorf("body %q", body)
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	var server *httptest.Server
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			t.Error("the redirect was followed")
		}
		http.Redirect(w, r, server.URL+"/elsewhere", http.StatusFound)
	}))
	defer server.Close()
	p := Policy{Hosts: []string{strings.TrimPrefix(server.URL, "http://")}} // a listed address, which is enough
	client := p.Client(time.Minute)
	defer client.CloseIdleConnections()
	resp, err := p.Fetch(context.Background(), client, server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusFound {
		t.Errorf("status %d", resp.StatusCode)
	}
	if _, err := client.Get("http://127.0.0.1:1/"); !errors.Is(err, ErrRefused) {
		t.Errorf("the client by itself: %v", err)
	}
}
