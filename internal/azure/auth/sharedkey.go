package auth

import (
	"encoding/base64"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// MaxSkew is the maximum difference between a request's date and the server's clock.
// https://learn.microsoft.com/rest/api/storageservices/authorize-with-shared-key#specifying-the-date-header
const MaxSkew = 15 * time.Minute

// sharedKey checks a Shared Key or Shared Key Lite signature, "account:signature".
func (a *Authenticator) sharedKey(r *wire.Request, credential string, lite bool) (Identity, error) {
	name, signature, ok := strings.Cut(credential, ":")
	if !ok || name == "" || signature == "" {
		return Identity{}, wire.ErrInvalidAuthenticationInfo
	}
	account := a.Accounts.Get(r.Account)
	if account == nil || strings.TrimSuffix(name, "-secondary") != account.Name {
		return Identity{}, wire.ErrAuthenticationFailed
	}
	if err := a.checkDate(r); err != nil {
		return Identity{}, err
	}
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	usual := usualForm(r, lite)
	*buf = appendStringToSign((*buf)[:0], r, r.Account, usual)
	if account.signed(*buf, signature) {
		return Identity{Mechanism: SharedKey}, nil
	}
	// The error has the string of the usual form, and the tries below overwrite buf: the text is made before them.
	detail := "The MAC signature found in the HTTP request '" + printableSignature(signature) +
		"' is not the same as any " +
		"computed signature. Server used following string to sign: '" + string(*buf) + "'."
	if otherForm(r, usual, func(owner string, f form) (bool, int) {
		*buf = appendStringToSign((*buf)[:0], r, owner, f)
		return account.signed(*buf, signature), len(*buf)
	}) {
		return Identity{Mechanism: SharedKey}, nil
	}
	return Identity{}, failed(detail)
}

// signed reports whether signature is the signature of message by one of the account's keys.
func (a *Account) signed(message []byte, signature string) bool {
	for _, key := range a.Keys {
		if key.Matches(message, signature) {
			return true
		}
	}
	return false
}

var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 1024); return &b }}

// printableSignature returns the client's signature for the error message, or a placeholder if it is malformed.
func printableSignature(s string) string {
	if _, err := base64.StdEncoding.DecodeString(s); err != nil || len(s) > 128 {
		return "(not a signature)"
	}
	return s
}

// checkDate refuses requests whose x-ms-date, or Date if that is absent, is missing or more than [MaxSkew] off, so that
// an old signed request cannot be replayed.
func (a *Authenticator) checkDate(r *wire.Request) error {
	s := r.Header("X-Ms-Date")
	if s == "" {
		s = r.Header("Date")
	}
	t, err := wire.ParseRFC1123(s)
	if err != nil {
		return failed("The Date header in the request is incorrect.")
	}
	now := r.Now
	if a.ClientsNow != nil {
		now = a.ClientsNow()
	}
	if skew := now.Sub(t); skew > MaxSkew || skew < -MaxSkew {
		return failed("Request date header too old or too far in the future: '" + wire.FormatRFC1123(t) + "'.")
	}
	return nil
}

// appendStringToSign appends the string to sign, in one of the four forms that the reference defines.
// https://learn.microsoft.com/rest/api/storageservices/authorize-with-shared-key
func appendStringToSign(b []byte, r *wire.Request, owner string, f form) []byte {
	if r.Service == wire.Table {
		return appendTableStringToSign(b, r, owner, f)
	}
	h := r.HTTP.Header
	line := func(name string) {
		if v := h[name]; len(v) > 0 {
			b = appendValue(b, v[0])
		}
		b = append(b, '\n')
	}
	b = append(append(b, r.HTTP.Method...), '\n')
	if !f.lite {
		line("Content-Encoding")
		line("Content-Language")
		b = appendContentLength(b, r, f.zeroLength)
		b = append(b, '\n')
	}
	line("Content-Md5")
	line("Content-Type")
	// x-ms-date stands for Date, whose line is then empty: its value is signed among the x-ms headers.
	if _, ok := h["X-Ms-Date"]; ok {
		b = append(b, '\n')
	} else {
		line("Date")
	}
	if !f.lite {
		line("If-Modified-Since")
		line("If-Match")
		line("If-None-Match")
		line("If-Unmodified-Since")
		line("Range")
	}
	b = appendCanonicalHeaders(b, h, f)
	if f.lite {
		return appendLiteResource(b, r, owner, f)
	}
	return appendResource(b, r, owner, f)
}

// appendTableStringToSign appends the Table service's forms, which do not sign x-ms headers.
func appendTableStringToSign(b []byte, r *wire.Request, owner string, f form) []byte {
	h := r.HTTP.Header
	if !f.lite {
		b = append(append(b, r.HTTP.Method...), '\n')
		b = append(append(b, r.Header("Content-Md5")...), '\n')
		b = append(append(b, r.Header("Content-Type")...), '\n')
	}
	// The form has no x-ms headers, so that x-ms-date is signed in the line of Date.
	date := h["X-Ms-Date"]
	if len(date) == 0 {
		date = h["Date"]
	}
	if len(date) > 0 {
		b = append(b, date[0]...)
	}
	return appendLiteResource(append(b, '\n'), r, owner, f)
}

// appendContentLength appends the signed form of the Content-Length: from version 2015-02-21, 0 is signed as "".
func appendContentLength(b []byte, r *wire.Request, zero bool) []byte {
	switch v := r.Header("Content-Length"); {
	case v == "0" && !zero:
		return b
	case v == "" && r.HTTP.ContentLength > 0: // sent in process, without a connection
		return strconv.AppendInt(b, r.HTTP.ContentLength, 10)
	default:
		return append(b, v...)
	}
}

// signedNames appends the names of the x-ms-* headers in order.
func signedNames(names []string, h http.Header, compare func(a, b string) int) []string {
	for name := range h {
		if strings.HasPrefix(name, signedPrefix) {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, compare)
	return names
}

// appendCanonicalHeaders appends all x-ms-* headers: names in lower case and sorted, values trimmed.
func appendCanonicalHeaders(b []byte, h http.Header, f form) []byte {
	var array [24]string
	names := f.names
	// The names are there already if a form is one of many that are tried for the same request.
	switch {
	case names != nil:
	case f.weighted:
		names = signedNames(array[:0], h, compareWeighted)
	default:
		names = signedNames(array[:0], h, compareFold)
	}
	for _, name := range names {
		values := h[name]
		if f.skipEmpty && len(values) == 1 && values[0] == "" {
			continue
		}
		for i := range len(name) {
			b = append(b, lower(name[i]))
		}
		b = append(b, ':')
		for i, value := range values {
			if i > 0 {
				b = append(b, ',')
			}
			if value = strings.TrimSpace(value); f.squeeze {
				value = strings.Join(strings.Fields(value), " ")
			}
			b = appendValue(b, value)
		}
		b = append(b, '\n')
	}
	return b
}

// appendValue appends the value of a header. The service reads the bytes of a header as ISO 8859-1 and signs UTF-8, so
// the signature of a client that sends UTF-8 outside ASCII does not match:
// https://github.com/Azure/azure-storage-java/issues/76
func appendValue(b []byte, value string) []byte {
	if wire.ASCII(value) {
		return append(b, value...)
	}
	for i := range len(value) {
		b = utf8.AppendRune(b, rune(value[i]))
	}
	return b
}

func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

// compareFold compares ASCII names ignoring case.
func compareFold(a, b string) int {
	for i := range min(len(a), len(b)) {
		if x, y := lower(a[i]), lower(b[i]); x != y {
			return int(x) - int(y)
		}
	}
	return len(a) - len(b)
}

// appendResource appends the canonicalized resource of the 2009-09-19 form: /account, the path as sent, and every
// query parameter on a line, sorted by name, with the values of equal names sorted and joined.
func appendResource(b []byte, r *wire.Request, owner string, f form) []byte {
	b = appendSignedPath(b, r, owner, f)
	if len(r.Query) == 0 {
		return b
	}
	var q wire.Query
	if f.bare {
		q = namelessParts(r)
	} else {
		q = slices.Clone(r.Query)
	}
	slices.SortStableFunc(q, func(x, y wire.Param) int {
		if c := strings.Compare(x.Name, y.Name); c != 0 {
			return c
		}
		return strings.Compare(x.Value, y.Value)
	})
	for i, p := range q {
		if i > 0 && q[i-1].Name == p.Name {
			b = append(b, ',')
		} else {
			b = append(append(append(b, '\n'), p.Name...), ':')
		}
		b = append(b, p.Value...)
	}
	return b
}

// appendSignedPath appends /owner and the path as the form signs it.
func appendSignedPath(b []byte, r *wire.Request, owner string, f form) []byte {
	b = append(append(b, '/'), owner...)
	path := r.URIPath
	if f.primary {
		path = "/" + r.Account + strings.TrimPrefix(path, "/"+r.Account+secondarySuffix)
	}
	return append(b, path...)
}

// appendLiteResource appends the canonicalized resource of the older form: /account, the path, and only comp.
func appendLiteResource(b []byte, r *wire.Request, owner string, f form) []byte {
	b = appendSignedPath(b, r, owner, f)
	if r.Query.Has("comp") {
		b = append(append(b, "?comp="...), r.Query.Get("comp")...)
	}
	return b
}
