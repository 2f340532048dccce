// Package signer signs requests of tests as a client does. It shares no code with the verification of signatures.
//
// https://learn.microsoft.com/rest/api/storageservices/authorize-with-shared-key
package signer

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Account signs for a storage account.
type Account struct {
	Name string
	Key  Key
	// Table signs for the Table service, whose signature covers fewer headers.
	Table bool
}

// Key computes the HMAC-SHA256 of a message and appends it to dst.
type Key interface {
	Sign(dst, message []byte) []byte
}

// ParseKey decodes an account's key in base64. It panics if the key is not valid.
func ParseKey(text string) Key {
	secret, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		panic("signer: " + err.Error())
	}
	return secretKey(secret)
}

type secretKey []byte

// Sign implements [Key].
func (k secretKey) Sign(dst, message []byte) []byte {
	mac := hmac.New(sha256.New, k)
	mac.Write(message)
	return mac.Sum(dst)
}

// SharedKey sets the Authorization header of a request. path is the percent-encoded path as sent, with the account in
// path style; the date is in x-ms-date.
func (a Account) SharedKey(r *http.Request, path string) {
	h := r.Header
	resource := "/" + a.Name + path
	query := r.URL.Query()
	if a.Table {
		if query.Has("comp") {
			resource += "?comp=" + query.Get("comp")
		}
		a.authorize(r, "SharedKey", r.Method+"\n"+h.Get("Content-MD5")+"\n"+h.Get("Content-Type")+"\n"+h.Get("x-ms-date")+
			"\n"+resource)
		return
	}
	length := ""
	if r.ContentLength > 0 {
		length = strconv.FormatInt(r.ContentLength, 10)
	}
	lines := []string{r.Method, h.Get("Content-Encoding"), h.Get("Content-Language"), length, h.Get("Content-MD5"),
		h.Get("Content-Type"),
		h.Get("Date"), h.Get("If-Modified-Since"), h.Get("If-Match"), h.Get("If-None-Match"), h.Get("If-Unmodified-Since"),
		h.Get("Range")}
	a.authorize(r, "SharedKey", strings.Join(lines, "\n")+"\n"+canonicalHeaders(h)+resource+canonicalQuery(query))
}

// SharedKeyLite is [Account.SharedKey] with the shorter form of signature.
func (a Account) SharedKeyLite(r *http.Request, path string) {
	h := r.Header
	resource := "/" + a.Name + path
	if query := r.URL.Query(); query.Has("comp") {
		resource += "?comp=" + query.Get("comp")
	}
	if a.Table {
		a.authorize(r, "SharedKeyLite", h.Get("x-ms-date")+"\n"+resource)
		return
	}
	a.authorize(r, "SharedKeyLite",
		strings.Join([]string{r.Method, h.Get("Content-MD5"), h.Get("Content-Type"), h.Get("Date"), ""}, "\n")+
			canonicalHeaders(h)+resource)
}

func (a Account) authorize(r *http.Request, scheme, message string) {
	r.Header.Set("Authorization", scheme+" "+a.Name+":"+
		base64.StdEncoding.EncodeToString(a.Key.Sign(nil, []byte(message))))
}

func canonicalHeaders(h http.Header) string {
	values := make(map[string]string)
	for name, list := range h {
		if name = strings.ToLower(name); strings.HasPrefix(name, "x-ms-") {
			values[name] = strings.TrimSpace(strings.Join(list, ","))
		}
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(values)) { // names, not lines: ":" is above "-"
		b.WriteString(name + ":" + values[name] + "\n")
	}
	return b.String()
}

func canonicalQuery(query url.Values) string {
	values := make(map[string]string)
	for name, list := range query {
		values[strings.ToLower(name)] = strings.Join(list, ",")
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(values)) {
		b.WriteString("\n" + name + ":" + values[name])
	}
	return b.String()
}
