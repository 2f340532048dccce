package admin

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"
)

// guard refuses requests that a web page may have caused; see the package comment.
func guard(allow []string) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			r := c.Request()
			if !trusted(r.Host, allow) {
				return c.String(http.StatusForbidden, "host name not allowed: use an IP address or localhost, or allow the name with --admin-allow-host\n")
			}
			if origin := r.Header.Get("Origin"); origin != "" {
				u, err := url.Parse(origin)
				if err != nil || u.Host == "" || !trusted(u.Host, allow) {
					return c.String(http.StatusForbidden, "requests from other origins are not allowed\n")
				}
			}
			if r.Header.Get("Sec-Fetch-Site") == "cross-site" {
				return c.String(http.StatusForbidden, "requests from other sites are not allowed\n")
			}
			return next(c)
		}
	}
}

// trusted reports whether host, which may have a port, is an IP address, localhost or one of the allowed names. Nobody
// can make a browser take an address or localhost for their own.
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
	return slices.ContainsFunc(allow, func(name string) bool { return strings.EqualFold(name, host) })
}
