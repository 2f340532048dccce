package wire

import (
	"net"
	"net/netip"
	"strings"
)

// secondarySuffix marks the read-only secondary endpoint in an account's host or path segment.
const secondarySuffix = "-secondary"

// locate splits the address into account and resource path. There are two forms: host style,
// account.blob.example:10000/container, as on Azure, and path style, 127.0.0.1:10000/account/container, as in the
// storage emulators.
func (r *Request) locate(path string, pathStyle bool) error {
	scheme := "http://"
	if r.HTTP.TLS != nil {
		scheme = "https://"
	}
	// A host that names an account goes first: the whole path is then that of the resource.
	if account, ok := hostAccount(r.HTTP.Host, r.Service); ok && !pathStyle {
		r.Base, r.ByHost = scheme+r.HTTP.Host, true
		r.setAccount(account)
		r.RawPath = path
		if r.RawPath == "/" {
			r.RawPath = ""
		}
		return nil
	}
	if len(path) < 2 || path[0] != '/' {
		return ErrInvalidURI
	}
	account := path[1:]
	if i := strings.IndexByte(account, '/'); i >= 0 {
		account, r.RawPath = account[:i], account[i:]
	}
	if r.RawPath == "/" {
		r.RawPath = ""
	}
	if !AccountName(strings.TrimSuffix(account, secondarySuffix)) {
		return ErrInvalidURI
	}
	r.Base = scheme + r.HTTP.Host + "/" + account
	r.setAccount(account)
	return nil
}

func (r *Request) setAccount(s string) {
	r.Account, r.Secondary = strings.CutSuffix(s, secondarySuffix)
}

// hostAccount returns the account in a host name of the form account.service.rest, where service is the name of svc.
func hostAccount(host string, svc Service) (account string, ok bool) {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	account, rest, ok := strings.Cut(host, ".")
	if !ok {
		return "", false
	}
	label, _, ok := strings.Cut(rest, ".")
	if !ok || !strings.EqualFold(label, svc.String()) && !(svc == Blob && strings.EqualFold(label, DataLake.String())) {
		return "", false
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return "", false
	}
	account = hostSuffixes(strings.ToLower(account))
	return account, AccountName(strings.TrimSuffix(account, secondarySuffix))
}

// HostService returns the endpoint that the name of a host is of: [Blob] or [DataLake]; 0 for others.
func HostService(host string) Service {
	for _, svc := range [...]Service{DataLake, Blob} {
		_, rest, _ := strings.Cut(host, ".")
		if label, _, ok := strings.Cut(rest, "."); ok && strings.EqualFold(label, svc.String()) {
			if _, ok := hostAccount(host, svc); ok {
				return svc
			}
		}
	}
	return 0
}

// hostSuffixes removes the suffixes of an account's host name that say over which network it is reached, -ipv6 and
// -dualstack, and leaves -secondary, in any order.
func hostSuffixes(label string) string {
	name, secondary := label, ""
	for {
		switch {
		case strings.HasSuffix(name, "-ipv6"):
			name = strings.TrimSuffix(name, "-ipv6")
		case strings.HasSuffix(name, "-dualstack"):
			name = strings.TrimSuffix(name, "-dualstack")
		case strings.HasSuffix(name, secondarySuffix) && secondary == "":
			name, secondary = strings.TrimSuffix(name, secondarySuffix), secondarySuffix
		default:
			return name + secondary
		}
	}
}

// AccountName reports whether an account may have the name s: 3 to 24 lower-case letters and digits.
// https://learn.microsoft.com/azure/storage/common/storage-account-overview#storage-account-name
func AccountName(s string) bool {
	if len(s) < 3 || len(s) > 24 {
		return false
	}
	for i := range len(s) {
		if (s[i] < 'a' || s[i] > 'z') && (s[i] < '0' || s[i] > '9') {
			return false
		}
	}
	return true
}
