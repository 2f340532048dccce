package auth

import (
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/internal/wire"
)

// Versions at which the string to sign of a shared access signature changes.
const (
	sas20120212 wire.Version = 20120212 // the version is signed
	sas20130815 wire.Version = 20130815 // response header overrides, for blobs
	sas20150221 wire.Version = 20150221 // the resource begins with its service
	sas20150405 wire.Version = 20150405 // addresses and protocols; account SAS
	sas20181109 wire.Version = 20181109 // the resource's kind and snapshot time, for blobs
	sas20201206 wire.Version = 20201206 // encryption scope
)

// Token is a shared access signature as a URL carries it. Fields that are absent are empty.
// https://learn.microsoft.com/rest/api/storageservices/delegate-access-with-shared-access-signature
type Token struct {
	Version     wire.Version // sv
	VersionText string
	Signature   string // sig

	Permissions   string // sp
	Start, Expiry string // st, se
	IP, Protocol  string // sip, spr
	Scope         string // ses

	Services, ResourceTypes string // ss, srt: an account SAS has them

	Policy   string // si: a stored access policy of the resource
	Resource string // sr: b, c, bs, bv or d
	Snapshot string // the snapshot or version that the URL names, which sr=bs and sr=bv sign
	Depth    string // sdd

	TableName              string // tn
	StartPK, StartRK       string // spk, srk
	EndPK, EndRK           string // epk, erk
	hasStartPK, hasStartRK bool
	hasEndPK, hasEndRK     bool
	CacheControl           string // rscc
	ContentDisposition     string // rscd
	ContentEncoding        string // rsce
	ContentLanguage        string // rscl
	ContentType            string // rsct
	delegationKey          bool   // skoid: signed with a user delegation key
}

// AccountSAS reports whether the token is for an account, not for one resource.
func (t *Token) AccountSAS() bool { return t.Services != "" || t.ResourceTypes != "" }

// tokenOf reads the token of a request. ok is false for parameters given twice, an unreadable version, or one that
// did not have this kind of token.
func tokenOf(q wire.Query) (t Token, ok bool) {
	fields := map[string]*string{
		"sv": &t.VersionText, "sig": &t.Signature, "sp": &t.Permissions, "st": &t.Start, "se": &t.Expiry,
		"sip": &t.IP, "spr": &t.Protocol, "ses": &t.Scope, "ss": &t.Services, "srt": &t.ResourceTypes,
		"si": &t.Policy, "sr": &t.Resource, "sdd": &t.Depth, "tn": &t.TableName, "spk": &t.StartPK, "srk": &t.StartRK,
		"epk": &t.EndPK, "erk": &t.EndRK, "rscc": &t.CacheControl, "rscd": &t.ContentDisposition,
		"rsce": &t.ContentEncoding, "rscl": &t.ContentLanguage, "rsct": &t.ContentType,
	}
	seen := make(map[string]bool, len(q))
	for _, p := range q {
		field, known := fields[p.Name]
		if p.Name == "skoid" {
			t.delegationKey = true
		}
		if !known {
			continue
		}
		if seen[p.Name] {
			return t, false
		}
		seen[p.Name] = true
		*field = p.Value
	}
	t.hasStartPK, t.hasStartRK, t.hasEndPK, t.hasEndRK = seen["spk"], seen["srk"], seen["epk"], seen["erk"]
	if t.VersionText != "" {
		if t.Version, ok = wire.ParseVersion(t.VersionText); !ok {
			return t, false
		}
	}
	if t.AccountSAS() && t.Version < sas20150405 {
		return t, false
	}
	return t, true
}

// authenticateSAS checks a token's signature, times, address and protocol, and says what it permits. A token that
// names a stored access policy is checked for the rest by [Identity.Apply], once the policy is known.
func authenticateSAS(r *wire.Request, accounts *Accounts) (Identity, error) {
	t, ok := tokenOf(r.Query)
	if !ok {
		return Identity{}, sasFailed("The signature's query parameters cannot be read.")
	}
	account := accounts.Get(r.Account)
	if account == nil {
		return Identity{}, wire.ErrAuthenticationFailed
	}
	if t.delegationKey {
		return Identity{}, wire.ErrNotImplemented.WithMessage("User delegation SAS are not implemented.")
	}
	switch t.Resource {
	case "bs":
		t.Snapshot = r.Query.Get("snapshot")
	case "bv":
		t.Snapshot = r.Query.Get("versionid")
	}
	resource, ok := t.resource(r)
	if !ok {
		return Identity{}, sasFailed("The signature is not for this kind of resource.")
	}
	message := []byte(t.stringToSign(r.Service, r.Account, resource))
	good := false
	for _, key := range account.Keys {
		good = key.Matches(message, t.Signature) || good
	}
	if !good {
		return Identity{}, sasFailed("Signature did not match. String to sign used was " + string(message))
	}
	if err := t.checkCaller(r); err != nil {
		return Identity{}, err
	}
	if r.Version == 0 { // a URL opened in a browser: the token's version stands for the missing header
		r.Version = min(t.Version, wire.LatestVersion())
		r.Set("x-ms-version", t.VersionText)
	}
	id := Identity{Mechanism: SAS, Permissions: t.Permissions, token: &t}
	if t.Policy == "" {
		return id, checkWindow(t.Start, t.Expiry, r.Now)
	}
	if t.AccountSAS() {
		return Identity{}, sasFailed("An account SAS cannot name a stored access policy.")
	}
	return id, nil
}

func sasFailed(why string) error {
	return wire.ErrAuthenticationFailed.With("AuthenticationErrorDetail", why)
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
		return sasFailed("The signed protocol is not valid.")
	}
	if t.IP != "" && !inRange(t.IP, r.HTTP.RemoteAddr) {
		return ErrAuthorizationSourceIPMismatch
	}
	return nil
}

// inRange reports whether an address with port lies in the signed range, "168.1.5.60" or "168.1.5.60-168.1.5.70".
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

// checkWindow checks a token's times. Without an expiry it is never valid.
func checkWindow(start, expiry string, now time.Time) error {
	if start != "" {
		t, ok := wire.ParseISO(start)
		if !ok {
			return sasFailed("The signed start time is not valid.")
		}
		if now.Before(t) {
			return sasFailed("Signature not valid in the specified time frame: Start [" + wire.FormatRFC1123(t) + "] - Current [" + wire.FormatRFC1123(now) + "]")
		}
	}
	t, ok := wire.ParseISO(expiry)
	if !ok {
		return sasFailed("The signed expiry time is missing or not valid.")
	}
	if !now.Before(t) {
		return sasFailed("Signature not valid in the specified time frame: Expiry [" + wire.FormatRFC1123(t) + "] - Current [" + wire.FormatRFC1123(now) + "]")
	}
	return nil
}

// resource is the canonicalised resource that the token must have been signed for, from the request's own path: a
// token for another resource cannot have the right signature. ok is false where the request's path is above what
// the token is for.
func (t *Token) resource(r *wire.Request) (string, bool) {
	if t.AccountSAS() {
		return "", true
	}
	path, err := url.PathUnescape(strings.TrimPrefix(r.RawPath, "/"))
	if err != nil {
		return "", false
	}
	prefix := "/" + r.Account + "/"
	if t.Version >= sas20150221 {
		prefix = "/" + r.Service.String() + prefix
	}
	head, rest, below := strings.Cut(path, "/")
	switch r.Service {
	case wire.Table:
		name, _, _ := strings.Cut(head, "(")
		// The name is signed in lower case; tn repeats it and must be the table that the path names.
		return prefix + strings.ToLower(name), name != "" && strings.EqualFold(name, t.TableName)
	case wire.Queue:
		return prefix + head, head != ""
	}
	if !below && t.Resource != "c" { // a blob of the root container
		head, rest, below = "$root", head, true
	}
	switch t.Resource {
	case "c":
		return prefix + head, head != ""
	case "b", "bs", "bv":
		return prefix + head + "/" + rest, below && rest != "" && (t.Resource == "b" || t.Snapshot != "")
	}
	return "", false // sr=d needs a hierarchical namespace
}

// stringToSign is the text whose HMAC is the signature.
// https://learn.microsoft.com/rest/api/storageservices/create-service-sas#specify-the-signature
// https://learn.microsoft.com/rest/api/storageservices/create-account-sas#construct-the-signature-string
func (t *Token) stringToSign(svc wire.Service, account, resource string) string {
	v := t.Version
	if t.AccountSAS() {
		lines := []string{account, t.Permissions, t.Services, t.ResourceTypes, t.Start, t.Expiry, t.IP, t.Protocol, t.VersionText}
		if v >= sas20201206 {
			lines = append(lines, t.Scope)
		}
		return strings.Join(lines, "\n") + "\n"
	}
	lines := []string{t.Permissions, t.Start, t.Expiry, resource, t.Policy}
	if v >= sas20150405 {
		lines = append(lines, t.IP, t.Protocol)
	}
	if v >= sas20120212 {
		lines = append(lines, t.VersionText)
	}
	switch svc {
	case wire.Table:
		lines = append(lines, t.StartPK, t.StartRK, t.EndPK, t.EndRK)
	case wire.Blob:
		if v >= sas20181109 {
			lines = append(lines, t.Resource, t.Snapshot)
		}
		if v >= sas20201206 {
			lines = append(lines, t.Scope)
		}
		if v >= sas20130815 {
			lines = append(lines, t.CacheControl, t.ContentDisposition, t.ContentEncoding, t.ContentLanguage, t.ContentType)
		}
	}
	return strings.Join(lines, "\n")
}

// The refusals of a shared access signature that is genuine but not for this call.
// https://learn.microsoft.com/rest/api/storageservices/blob-service-error-codes
var (
	ErrAuthorizationServiceMismatch = &wire.Error{Status: http.StatusForbidden, Code: "AuthorizationServiceMismatch",
		Message: "This request is not authorized to perform this operation using this service."}
	ErrAuthorizationResourceTypeMismatch = &wire.Error{Status: http.StatusForbidden, Code: "AuthorizationResourceTypeMismatch",
		Message: "This request is not authorized to perform this operation using this resource type."}
	ErrAuthorizationProtocolMismatch = &wire.Error{Status: http.StatusForbidden, Code: "AuthorizationProtocolMismatch",
		Message: "This request is not authorized to perform this operation using this protocol."}
	ErrAuthorizationSourceIPMismatch = &wire.Error{Status: http.StatusForbidden, Code: "AuthorizationSourceIPMismatch",
		Message: "This request is not authorized to perform this operation using this source IP."}
	ErrAuthorizationFailure = &wire.Error{Status: http.StatusForbidden, Code: "AuthorizationFailure",
		Message: "This request is not authorized to perform this operation."}
)
