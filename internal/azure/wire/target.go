package wire

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// secondarySuffix marks the read-only secondary endpoint in an account's host or path segment.
const secondarySuffix = "-secondary"

// target returns the path and the query of a request as sent.
func target(hr *http.Request) (path, rawQuery string, err error) {
	uri := hr.RequestURI
	if uri == "" { // a request of this process, not read from a connection
		uri = hr.URL.RequestURI()
	}
	if !strings.HasPrefix(uri, "/") { // absolute form, as sent to a proxy
		_, rest, found := strings.Cut(uri, "://")
		slash := strings.IndexByte(rest, '/')
		if !found || slash < 0 {
			return "", "", ErrInvalidURI
		}
		uri = rest[slash:]
	}
	if len(uri) > MaxURI {
		return "", "", ErrInvalidURI
	}
	path, rawQuery, _ = strings.Cut(uri, "?")
	return path, rawQuery, nil
}

// AccountOf returns the account that [Parse] finds in a request to a service, without "-secondary", and parses nothing
// else: it is for what has to know the account before the request is parsed. ok is false if Parse would not find one.
func AccountOf(svc Service, hr *http.Request, o Options) (account string, ok bool) {
	path, _, err := target(hr)
	if err != nil {
		return "", false
	}
	at, err := split(svc, hr.Host, path, o.PathStyle)
	return strings.TrimSuffix(at.account, secondarySuffix), err == nil
}

// locate splits the address into account and resource path.
func (r *Request) locate(path string, pathStyle bool) error {
	at, err := split(r.Service, r.HTTP.Host, path, pathStyle)
	if err != nil {
		return err
	}
	scheme := "http://"
	if r.HTTP.TLS != nil {
		scheme = "https://"
	}
	if r.ByHost = at.byHost; at.byHost {
		r.Base = scheme + r.HTTP.Host
	} else {
		r.Base = scheme + r.HTTP.Host + "/" + at.account
	}
	if r.RawPath = at.path; r.RawPath == "/" {
		r.RawPath = ""
	}
	r.setAccount(at.account)
	return nil
}

// place is an address in its parts: the account, with "-secondary" if that was asked for, and the path below it.
type place struct {
	account, path string
	byHost        bool
}

// split finds the account of an address. There are two forms: host style, account.blob.example:10000/container, as on
// Azure, and path style, 127.0.0.1:10000/account/container, as in the storage emulators.
func split(svc Service, host, path string, pathStyle bool) (at place, err error) {
	// A host that names an account goes first: the whole path is then that of the resource.
	if account, ok := hostAccount(host, svc); ok && !pathStyle {
		return place{account, path, true}, nil
	}
	if len(path) < 2 || path[0] != '/' {
		return at, ErrInvalidURI
	}
	at.account = path[1:]
	if i := strings.IndexByte(at.account, '/'); i >= 0 {
		at.account, at.path = at.account[:i], at.account[i:]
	}
	if !AccountName(strings.TrimSuffix(at.account, secondarySuffix)) {
		return at, ErrInvalidURI
	}
	return at, nil
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
