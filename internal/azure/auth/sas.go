package auth

import (
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// sas checks a token's signature, times, address and protocol, and returns what it permits. A token that names a stored
// access policy is checked further by [Identity.Apply], when the policy has been read.
func (a *Authenticator) sas(r *wire.Request) (Identity, error) {
	t, ok := readToken(r.Query, r.Service)
	if !ok {
		return Identity{}, failed("The signature's query parameters cannot be read, or are not part of its version or kind.")
	}
	account := a.Accounts.Get(r.Account)
	if account == nil {
		return Identity{}, wire.ErrAuthenticationFailed
	}
	// The signature of a snapshot or version covers its time, which is not a parameter of the token but of the URL.
	if r.Service == wire.Blob {
		switch t.Resource {
		case "bs":
			t.Snapshot = r.Query.Get("snapshot")
		case "bv":
			t.Snapshot = r.Query.Get("versionid")
		}
	}
	// The resource is not sent: it is taken from the request, and a token for another one has another signature.
	resource, ok := t.resource(r)
	if !ok {
		return Identity{}, failed("The signature is not for this kind of resource.")
	}
	id := Identity{Mechanism: SAS, Permissions: t.Permissions, token: t, resource: resource, base: t.base(r)}
	if t.Delegation != nil {
		if err := a.delegated(r, account, &id, resource); err != nil {
			return Identity{}, err
		}
	} else {
		buf := buffers.Get().(*[]byte)
		defer buffers.Put(buf)
		if *buf = t.appendStringToSign((*buf)[:0], r.Service, r.Account, resource); !account.signed(*buf, t.Signature) {
			return Identity{}, failed("Signature did not match. String to sign used was " + string(*buf))
		}
	}
	if t.AccountSAS() { // which does not sign overrides: its holder could change a blob's content type
		t.CacheControl = ""
		t.ContentDisposition = ""
		t.ContentEncoding = ""
		t.ContentLanguage = ""
		t.ContentType = ""
	}
	// The signature is valid: from here on the fields of the token are those of its signer.
	if err := t.checkCaller(r); err != nil {
		return Identity{}, err
	}
	if err := t.setVersion(r); err != nil {
		return Identity{}, err
	}
	// With a policy the times may be in it, so that the window is checked by Apply.
	if t.Policy == "" {
		return id, checkWindow(t.Start, t.Expiry, r.Now)
	}
	return id, nil
}

// setVersion gives a request without x-ms-version the version that its URL names: api-version, or else sv.
// https://learn.microsoft.com/rest/api/storageservices/versioning-for-the-azure-storage-services
func (t *Token) setVersion(r *wire.Request) error {
	if r.Version != 0 {
		return nil
	}
	v, text := t.Version, t.VersionText
	if asked := r.Query.Get("api-version"); asked != "" {
		var ok bool
		if v, ok = wire.ParseVersion(asked); !ok {
			return wire.InvalidQuery("api-version", asked, "")
		}
		text = asked
	}
	if v == 0 {
		return nil
	}
	r.Version = min(v, wire.LatestVersion())
	if r.Out != nil { // a copy source is checked like a request, but has no response
		r.Set("x-ms-version", text)
	}
	return nil
}

// checkCaller checks the limits on where and how a token is used.
func (t *Token) checkCaller(r *wire.Request) error {
	switch t.Protocol {
	case "", "https,http", "http,https":
	case "https":
		if r.HTTP.TLS == nil {
			return ErrAuthorizationProtocolMismatch
		}
	default:
		return failed("The signed protocol is not valid.")
	}
	if t.IP != "" && !inRange(t.IP, r.HTTP.RemoteAddr) {
		return ErrAuthorizationSourceIPMismatch
	}
	return nil
}

// inRange reports whether an address with port is in the signed range, "168.1.5.60" or "168.1.5.60-168.1.5.70".
func inRange(signed, remote string) bool {
	addr, err := netip.ParseAddrPort(remote)
	if err != nil {
		return false
	}
	low, high, isRange := strings.Cut(signed, "-")
	if !isRange {
		high = low
	}
	from, err1 := netip.ParseAddr(low)
	to, err2 := netip.ParseAddr(high)
	ip := addr.Addr().Unmap()
	return err1 == nil && err2 == nil && from.Compare(ip) <= 0 && ip.Compare(to) <= 0
}

// checkWindow checks a token's times. A token without an expiry is invalid.
func checkWindow(start, expiry string, now time.Time) error {
	from := time.Time{}
	if start != "" {
		var ok bool
		if from, ok = wire.ParseISO(start); !ok {
			return failed("The signed start time is not valid.")
		}
	}
	to, ok := wire.ParseISO(expiry)
	if !ok {
		return failed("The signed expiry time is missing or not valid.")
	}
	if now.Before(from) || !now.Before(to) {
		why := "Signature not valid in the specified time frame: "
		if start != "" {
			why += "Start [" + wire.FormatRFC1123(from) + "] - "
		}
		return failed(why + "Expiry [" + wire.FormatRFC1123(to) + "] - Current [" + wire.FormatRFC1123(now) + "]")
	}
	return nil
}

// segments splits a request's path below the account as the services do: at the first slash as sent, before
// decoding. An encoded slash in the first segment is part of a name, which is then invalid.
func segments(path string) (head, rest string, below, ok bool) {
	head, rest, below = strings.Cut(strings.TrimPrefix(path, "/"), "/")
	var err1, err2 error
	head, err1 = url.PathUnescape(head)
	rest, err2 = url.PathUnescape(rest)
	return head, rest, below, err1 == nil && err2 == nil
}

// container returns the container, queue or table that a request's path names, decoded; "" for the service itself. A
// batch of table operations does not name one.
func container(r *wire.Request) string {
	head, _, below, ok := segments(r.RawPath)
	switch {
	case !ok:
		return ""
	case r.Service == wire.Table:
		name, argument, _ := strings.Cut(head, "(")
		switch {
		case strings.EqualFold(name, "Tables"): // Tables('name')
			return strings.Trim(strings.TrimSuffix(argument, ")"), "'")
		case name == "$batch":
			return ""
		}
		return name
	case r.Service == wire.Blob && !below && head != "" && r.Restype == "":
		return "$root"
	}
	return head
}

// base is what all canonicalized resources of the account begin with.
func (t *Token) base(r *wire.Request) string {
	if t.Version >= sas20150221 {
		return "/" + r.Service.String() + "/" + r.Account + "/"
	}
	return "/" + r.Account + "/"
}

// resource returns the canonicalized resource that the token must have been signed for, from the request's own path: a
// token for another resource has another signature. ok is false if the request's path is above the resource
// that the token is for.
func (t *Token) resource(r *wire.Request) (string, bool) {
	if t.AccountSAS() {
		return "", t.Version >= sas20150405
	}
	head, rest, below, ok := segments(r.RawPath)
	if !ok || head == "" {
		return "", false
	}
	prefix := t.base(r)
	switch r.Service {
	case wire.Table:
		name, _, _ := strings.Cut(head, "(")
		if name == "$batch" { // [Identity.Table] checks its operations against the token
			return prefix + strings.ToLower(t.TableName), t.TableName != ""
		}
		// The name is signed in lower case; tn must be the table that the path names.
		return prefix + strings.ToLower(name), name != "" && strings.EqualFold(name, t.TableName)
	case wire.Queue:
		return prefix + head, true
	}
	if !below && r.Restype == "" { // a blob in the root container
		head, rest, below = "$root", head, true
	}
	if !r.Lake { // in names of blobs the two are one, and a slash is signed; in paths they are not
		rest = strings.ReplaceAll(rest, `\`, "/")
	}
	switch t.Resource {
	case "c":
		return prefix + head, true
	case "b":
		return prefix + head + "/" + rest, below && rest != ""
	case "bs":
		return prefix + head + "/" + rest, below && rest != "" && t.Snapshot != "" && t.Version >= sas20181109
	case "bv":
		return prefix + head + "/" + rest, below && rest != "" && t.Snapshot != "" && t.Version >= sas20191212
	case "d":
		path, list := rest, !below && r.Comp == "list"
		switch {
		case list:
			path = r.Query.Get("prefix")
		case !below && r.Restype == "filesystem": // List Paths
			path, list = strings.Trim(r.Query.Get("directory"), "/")+"/", true
		}
		directory, ok := t.directory(path, list)
		return prefix + head + directory, ok && (below || list) && t.Version >= sas20200210
	}
	return "", false
}

// maxDepth is the maximum of sdd: a blob name of 1024 characters cannot have more directories.
const maxDepth = 1024

// directory returns the part of a path that a token for a directory signs: its first sdd segments. The path is the name
// of the directory or of a blob below it. With list it is the prefix of a listing, in which a slash must follow the
// directory's name: without it, the listing would include other names with the same beginning.
func (t *Token) directory(path string, list bool) (string, bool) {
	n, err := strconv.Atoi(t.Depth)
	if err != nil || n < 0 || n > maxDepth {
		return "", false
	}
	if n == 0 {
		return "", list || path != ""
	}
	end := 0
	// Each round moves end behind one segment and its slash. The last segment may be the end of the path, unless the
	// path is the prefix of a listing.
	for ; n > 0; n-- {
		i := strings.IndexByte(path[end:], '/')
		if i < 0 && n == 1 && !list && end < len(path) {
			return "/" + path, true
		}
		if i <= 0 { // the blob is not below the directory
			return "", false
		}
		end += i + 1
	}
	return "/" + path[:end-1], true
}
