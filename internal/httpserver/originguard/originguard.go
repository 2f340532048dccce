// Package originguard recognises requests that a web page may have caused: pages can make a browser talk to servers on the
// developer's own machine, which have no other protection than to be there.
package originguard

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// Refusal says why a request is not to be trusted, for people; empty if it is. Hosts in allow are trusted beside addresses and
// localhost.
func Refusal(r *http.Request, allow []string) string {
	if !trusted(r.Host, allow) {
		return "host name not allowed: use an IP address or localhost"
	}
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

// trusted reports whether host, which may have a port, is an IP address, localhost or one of the allowed names: no page can make its own
// name lead to an address or to localhost and have the browser send one of these. As an origin they tell nothing, since anybody's server
// has an address, and another program of this machine may serve pages of anybody's.
func trusted(host string, allow []string) bool {
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
