// Package originguard recognises requests that a web page may have caused: pages can make a browser send requests to
// servers on the developer's machine, which have no other protection.
package originguard

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// Refusal returns why a request is not trusted, as text for people; "" if it is trusted. Hosts in allow are trusted as
// well as addresses and localhost.
func Refusal(r *http.Request, allow []string) string {
	if !Trusted(r.Host, allow) {
		return "host name not allowed: use an IP address or localhost"
	}
	return ForeignPage(r, allow)
}

// ForeignPage is [Refusal] without the check of the host's name, for servers that may have any name.
func ForeignPage(r *http.Request, allow []string) string {
	for _, origin := range r.Header["Origin"] {
		u, err := url.Parse(origin)
		if err != nil || !strings.EqualFold(u.Host, r.Host) && !listed(u.Hostname(), allow) {
			return "requests from other origins are not allowed"
		}
	}
	if r.Header.Get("Sec-Fetch-Site") == "cross-site" {
		return "requests from other sites are not allowed"
	}
	return ""
}

// Trusted reports whether host, which may have a port, is an IP address, localhost or one of the allowed names. A page
// can make its own name resolve to this machine (DNS rebinding), but then the browser sends that name as the host. As
// an origin an address or localhost proves nothing: every server has an address, and another program on this machine
// may serve foreign pages.
func Trusted(host string, allow []string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return true
	}
	return listed(host, allow)
}

func listed(host string, allow []string) bool {
	return slices.ContainsFunc(allow, func(name string) bool { return strings.EqualFold(name, host) })
}
