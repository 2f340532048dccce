package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/lazuli-storage/lazuli/internal/exposure"
)

var (
	// ErrRefused means that a policy does not allow a URL, judged by its text alone.
	ErrRefused = errors.New("the server is not allowed to call this host")
	// ErrNotPublic means that the name of an allowed host resolves to an address that is not public. Clients must not be
	// able to distinguish it from a name that does not exist: that would disclose the names of a private network.
	ErrNotPublic = errors.New("the host has no public address")
)

// Policy is the set of hosts to which requests may be sent. The zero value allows no host.
type Policy struct {
	// Hosts are the names that may be called: "data.example.com", "*.example.com" for all names below one, with an
	// optional ":port"; without a port, 80 and 443. IP addresses are allowed only if they are listed themselves. "*"
	// allows every public host.
	Hosts []string
	// Private allows hosts of the list at private, loopback and link-local addresses too.
	Private bool
	// ThisMachine allows "localhost" and loopback addresses, at every port, if Hosts is empty. With a list it has no
	// effect: a name of the list could lead to this machine.
	ThisMachine bool
	// Resolver finds addresses; nil is the system's.
	Resolver *net.Resolver
}

// Validate checks the list. Its error names the entry.
func (p *Policy) Validate() error {
	for _, h := range p.Hosts {
		if h == "*" {
			continue
		}
		name, port := split(h)
		name = strings.TrimPrefix(name, "*.")
		if _, err := strconv.ParseUint(port, 10, 16); name == "" || strings.ContainsAny(name, "/*@ ") || err != nil &&
			name != h && "*."+name != h && "["+name+"]" != h {
			return fmt.Errorf("%q is not a host, host:port or *.domain", h)
		}
	}
	return nil
}

// Allows reports whether the text of a URL is allowed: http or https, no user information, and a listed
// host. Where its name leads is checked when it is called. It fails with [ErrRefused].
func (p *Policy) Allows(u *url.URL) error {
	if u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.Hostname() == "" {
		return ErrRefused
	}
	host, port := strings.ToLower(strings.TrimSuffix(u.Hostname(), ".")), u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	for _, h := range p.Hosts {
		if matches(strings.ToLower(h), host, port) {
			return nil
		}
	}
	if p.thisMachine() && exposure.Local(host) {
		return nil
	}
	return ErrRefused
}

// String names the hosts that the policy allows, for people.
func (p *Policy) String() string {
	switch {
	case p.thisMachine():
		return "this machine"
	case len(p.Hosts) == 0:
		return "no host"
	}
	return strings.Join(p.Hosts, ", ")
}

func (p *Policy) thisMachine() bool { return p.ThisMachine && len(p.Hosts) == 0 }

// split splits a list entry into name and port. IPv6 addresses with a port are in brackets.
func split(entry string) (name, port string) {
	if _, err := netip.ParseAddr(entry); err == nil {
		return entry, ""
	}
	if host, port, err := net.SplitHostPort(entry); err == nil {
		return host, port
	}
	return strings.Trim(entry, "[]"), ""
}

func matches(entry, host, port string) bool {
	addr, err := netip.ParseAddr(host)
	isAddr := err == nil
	if entry == "*" {
		return (port == "80" || port == "443") && !isAddr
	}
	name, entryPort := split(entry)
	if entryPort == "" && port != "80" && port != "443" || entryPort != "" && entryPort != port {
		return false
	}
	if isAddr {
		listed, err := netip.ParseAddr(name)
		return err == nil && listed.Unmap() == addr.Unmap()
	}
	if domain, ok := strings.CutPrefix(name, "*."); ok {
		return strings.HasSuffix(host, "."+domain)
	}
	return name == host
}

// carrierNAT, benchmarks and the like: address blocks that are not of the public Internet and that netip has no word
// for (RFC 6890).
var special = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("198.18.0.0/15"),
	netip.MustParsePrefix("198.51.100.0/24"),
	netip.MustParsePrefix("203.0.113.0/24"), netip.MustParsePrefix("240.0.0.0/4"), netip.MustParsePrefix("64:ff9b::/96"),
	netip.MustParsePrefix("64:ff9b:1::/48"), netip.MustParsePrefix("100::/64"), netip.MustParsePrefix("2001::/23"),
	netip.MustParsePrefix("2001:db8::/32"), netip.MustParsePrefix("2002::/16"), netip.MustParsePrefix("fec0::/10"),
	// Azure's platform service answers at a public address.
	netip.MustParsePrefix("168.63.129.16/32"),
}

// public reports whether an address belongs to the public Internet.
func public(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	if !a.IsValid() || a.IsUnspecified() || a.IsLoopback() || a.IsPrivate() || a.IsLinkLocalUnicast() || a.IsMulticast() {
		return false
	}
	for _, p := range special {
		if p.Contains(a) {
			return false
		}
	}
	return true
}

// Client returns an HTTP client that keeps to the policy. It follows no redirects and uses no proxy. timeout bounds
// the time until an answer's head; reading the body is bounded by the request's context.
func (p *Policy) Client(timeout time.Duration) *http.Client {
	dialer := &net.Dialer{Timeout: timeout, Resolver: p.Resolver, Control: p.control}
	return &http.Client{
		Transport: guarded{p, &http.Transport{
			Proxy:                  nil, // which would resolve names for us
			DialContext:            dialer.DialContext,
			TLSHandshakeTimeout:    timeout,
			ResponseHeaderTimeout:  timeout,
			MaxResponseHeaderBytes: 64 << 10,
			ForceAttemptHTTP2:      true,
			DisableCompression:     true, // content is copied as it is
			IdleConnTimeout:        30 * time.Second,
			MaxIdleConnsPerHost:    4,
		}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// guarded checks each request's URL, so that a client cannot be used past its policy.
type guarded struct {
	policy *Policy
	next   *http.Transport
}

// RoundTrip implements http.RoundTripper.
func (g guarded) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := g.policy.Allows(r.URL); err != nil {
		return nil, err
	}
	return g.next.RoundTrip(r)
}

// CloseIdleConnections is for http.Client.CloseIdleConnections.
func (g guarded) CloseIdleConnections() { g.next.CloseIdleConnections() }

// control is called with the address that a connection is about to be made to, when nothing can change it any more.
func (p *Policy) control(_, address string, _ syscall.RawConn) error {
	addr, err := netip.ParseAddrPort(address)
	if err != nil {
		return ErrNotPublic
	}
	if p.thisMachine() {
		if addr.Addr().Unmap().IsLoopback() {
			return nil
		}
		return ErrNotPublic
	}
	if public(addr.Addr()) || p.Private || p.lists(addr.Addr()) {
		return nil
	}
	return ErrNotPublic
}

// lists reports whether an address is listed itself.
func (p *Policy) lists(a netip.Addr) bool {
	for _, h := range p.Hosts {
		name, _ := split(h)
		if listed, err := netip.ParseAddr(name); err == nil && listed.Unmap() == a.Unmap() {
			return true
		}
	}
	return false
}

// Fetch starts a GET of a URL that the policy allows. The caller closes the answer's body. header may be nil. It fails
// with [ErrRefused], [ErrNotPublic], or because the host cannot be reached.
func (p *Policy) Fetch(ctx context.Context, client *http.Client, address string, header http.Header) (*http.Response,
	error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, ErrRefused
	}
	if err := p.Allows(u); err != nil {
		return nil, err
	}
	hr, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, ErrRefused
	}
	for name, values := range header {
		hr.Header[name] = values
	}
	return client.Do(hr)
}
