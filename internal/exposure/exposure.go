// Package exposure has the rule for what other machines can reach: what a listener gives without a secret is for this
// machine only. Each option that opens something asks this package whether its address is local, and refuses the
// others with [Refuse] or [Check].
package exposure

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
)

// Local reports whether only this machine reaches the host: it is localhost or a loopback address.
func Local(host string) bool {
	a, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && a.IsLoopback()
}

// Host returns the host of an address of the form host:port. An empty host is all addresses of the machine.
func Host(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil || host == "" {
		return "0.0.0.0"
	}
	return host
}

// Callable is an address that this machine can call for one that a listener has: a wildcard cannot be called.
func Callable(address string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port)
}

// LocalCaller reports whether a request came from this machine or this process, by the address of its connection. A
// connection within the process has an address of another form.
func LocalCaller(remote string) bool {
	a, err := netip.ParseAddrPort(remote)
	return err != nil || a.Addr().IsLoopback()
}

// Refuse returns the error for what would be given to other machines: way says how it may be opened to them.
func Refuse(gives, host, way string) error {
	return fmt.Errorf("%s to everyone who can reach %s, which is not a loopback address: %s", gives, host, way)
}

// Check refuses a listener at an address of the form host:port that other machines reach, unless callers must have a
// secret, "" for none: option opens it, and way says how to set a secret.
func Check(option, address, secret, way string) error {
	if host := Host(address); secret == "" && !Local(host) {
		return Refuse(option+" is open", host, way+", or use a loopback address and ssh -L")
	}
	return nil
}
