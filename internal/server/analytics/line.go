package analytics

import (
	"html"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/frontend"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// startLayout is the form of request-start-time.
const startLayout = wire.ISO7

// appendLine appends the log line of a request, in format version 1.0 (30 fields) or 2.0 (38).
// https://learn.microsoft.com/rest/api/storageservices/storage-analytics-log-format
func appendLine(b []byte, version string, r *wire.Request, o frontend.Outcome) []byte {
	h, answer := r.HTTP.Header, r.Out.Header()
	requester := ""
	// Only an account that signed with its key has a requester's name, as on Azure; the field is empty for SAS and
	// anonymous.
	if o.Identity.Mechanism == auth.SharedKey {
		requester = r.Account
	}
	status := "Unknown"
	// A connection that ended before the answer has no status.
	if o.Status != 0 {
		status = strconv.Itoa(o.Status)
	}
	latency := strconv.FormatInt(o.Duration.Milliseconds(), 10)
	f := fields{b: b}
	f.plain(version).plain(r.Now.UTC().Format(startLayout)).plain(r.Operation).plain(requestStatus(r, o)).plain(status).
		// End-to-end and server latency are the same here: the time on the network is not measured.
		plain(latency).plain(latency).plain(authentication(o.Identity)).plain(requester).plain(r.Account).
		plain(r.Service.String()).quoted(requestURL(r)).
		quoted("/" + r.Account + r.RawPath).plain(r.ID).plain("0").plain(r.HTTP.RemoteAddr).plain(r.VersionHeader).
		number(headSize(h) + int64(len(r.HTTP.Method)+len(" ")+len(r.HTTP.URL.RequestURI())+len(" HTTP/1.1\r\n"))).
		number(max(r.HTTP.ContentLength, 0)).number(headSize(answer)).number(o.Written).
		number(max(r.HTTP.ContentLength, 0)).quoted(h.Get("Content-Md5")).quoted(first(answer, "Content-MD5")).
		quoted(first(answer, "ETag")).plain(lastModified(first(answer, "Last-Modified"))).quoted(conditions(h)).
		quoted(h.Get("User-Agent")).quoted(withoutSignature(h.Get("Referer"))).quoted(r.ClientID)
	if version == "2.0" {
		// The eight fields of version 2.0 are those of the bearer token: object, tenant, application. They stay empty.
		for range 8 {
			f.plain("")
		}
	}
	return append(f.b, '\n')
}

// requestURL returns the address as the client wrote it, without the signature of a token, which a reader of the log
// could use.
func requestURL(r *wire.Request) string {
	scheme, _, _ := strings.Cut(r.Base, "://")
	address := scheme + "://" + r.HTTP.Host + r.URIPath
	if r.HTTP.URL.RawQuery == "" {
		return address
	}
	return withoutSignature(address + "?" + r.HTTP.URL.RawQuery)
}

// withoutSignature returns an address without signatures. A page that a browser has read with a token is the referrer
// of what it refers to.
func withoutSignature(address string) string {
	path, query, _ := strings.Cut(address, "?")
	if query == "" {
		return address
	}
	params := strings.Split(query, "&")
	for i, p := range params {
		name, _, _ := strings.Cut(p, "=")
		if decoded, err := url.QueryUnescape(name); err != nil || strings.EqualFold(decoded, "sig") {
			params[i] = name + "=XXXXX"
		}
	}
	return path + "?" + strings.Join(params, "&")
}

// fields appends fields with a semicolon between them.
type fields struct {
	b     []byte
	begun bool
}

func (f *fields) next() {
	if f.begun {
		f.b = append(f.b, ';')
	}
	f.begun = true
}

func (f *fields) plain(s string) *fields {
	f.next()
	f.b = append(f.b, s...)
	return f
}

func (f *fields) number(n int64) *fields { return f.plain(strconv.FormatInt(n, 10)) }

// quoted returns text from a client HTML-encoded and quoted, so that it cannot end a line or a field.
func (f *fields) quoted(s string) *fields {
	if s == "" {
		return f.plain("")
	}
	f.next()
	s = strings.NewReplacer("\n", "&#10;", "\r", "&#13;").Replace(html.EscapeString(s))
	f.b = append(f.b, '"')
	f.b = append(f.b, strings.ReplaceAll(s, "&#34;", "&quot;")...)
	f.b = append(f.b, '"')
	return f
}

// first returns the first value of a header that was set without net/http's canonical form.
func first(h http.Header, name string) string {
	if v := h[name]; len(v) > 0 {
		return v[0]
	}
	return h.Get(name)
}

func headSize(h http.Header) (n int64) {
	for name, values := range h {
		for _, v := range values {
			n += int64(len(name) + len(v) + len(": \r\n"))
		}
	}
	return n
}

// lastModified turns an HTTP date into the log's form, "Thursday, 19-Jun-14 22:58:10 GMT".
func lastModified(s string) string {
	t, err := wire.ParseRFC1123(s)
	if err != nil {
		return ""
	}
	return t.Format("Monday, 02-Jan-06 15:04:05 GMT")
}

func conditions(h http.Header) string {
	var list []string
	for _, name := range []string{"If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since"} {
		if v := h.Get(name); v != "" {
			list = append(list, name+"="+v)
		}
	}
	return strings.Join(list, ";")
}

func authentication(id auth.Identity) string {
	switch id.Mechanism {
	case auth.SharedKey:
		return "authenticated"
	case auth.SAS:
		return "sas"
	case auth.Anonymous:
		return "anonymous"
	}
	return "bearer"
}

// outcome is the status of a request in the metrics.
type outcome uint8

const (
	success outcome = iota
	throttlingError
	clientTimeoutError
	serverTimeoutError
	clientOtherError
	serverOtherError
	authorizationError
	networkError
	outcomes // their number
)

var outcomeNames = [outcomes]string{"Success", "ThrottlingError", "ClientTimeoutError", "ServerTimeoutError",
	"ClientOtherError",
	"ServerOtherError", "AuthorizationError", "NetworkError"}

// outcomeOf returns the outcome of an answer.
// https://learn.microsoft.com/rest/api/storageservices/storage-analytics-logged-operations-and-status-messages
func outcomeOf(r *wire.Request, o frontend.Outcome) outcome {
	switch {
	case o.Status == 0:
		return networkError
	case o.Status < 400:
		return success
	case o.Status == http.StatusServiceUnavailable:
		return throttlingError
	case r.Failure != nil && r.Failure.Code == wire.ErrOperationTimedOut.Code:
		return serverTimeoutError
	case o.Status >= 500:
		return serverOtherError
	case o.Status == http.StatusUnauthorized || o.Status == http.StatusForbidden:
		return authorizationError
	case o.Status == http.StatusRequestTimeout:
		return clientTimeoutError
	}
	return clientOtherError
}

// caller is a kind of caller in the metrics.
type caller uint8

const (
	withKey caller = iota // also with a token
	anonymously
	withSAS
	callers // their number
)

var callerPrefix = [callers]string{"", "Anonymous", "SAS"}

func callerOf(id auth.Identity) caller {
	switch id.Mechanism {
	case auth.Anonymous:
		return anonymously
	case auth.SAS:
		return withSAS
	}
	return withKey
}

// v20170417 is the first version in which requests that failed by the client's fault are logged with their code.
const v20170417 wire.Version = 20170417

// requestStatus returns the request-status of the log.
func requestStatus(r *wire.Request, o frontend.Outcome) string {
	kind := outcomeOf(r, o)
	if kind == clientOtherError && r.Version >= v20170417 && r.Failure != nil {
		return r.Failure.Code
	}
	if kind == success && callerOf(o.Identity) == withKey && authentication(o.Identity) == "bearer" {
		return "OAuthSuccess"
	}
	return callerPrefix[callerOf(o.Identity)] + outcomeNames[kind]
}

// logged reports whether a request is logged: of anonymous requests, only those that succeeded, failed by the server's
// fault, or were answered 304.
func logged(o frontend.Outcome) bool {
	return o.Identity.Mechanism != auth.Anonymous || o.Status < 400 || o.Status >= 500
}

// kind is a kind of request in the logging settings.
type kind uint8

const (
	reads kind = 1 << iota
	writes
	deletes
)

func kindOf(r *wire.Request) kind {
	switch r.HTTP.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return reads
	case http.MethodDelete:
		return deletes
	}
	if strings.HasPrefix(r.Operation, "Delete") {
		return deletes
	}
	return writes
}

// logType returns the LogType metadata for the kinds of lines in a blob.
func logType(k kind) string {
	var list []string
	for _, e := range []struct {
		k    kind
		name string
	}{{reads, "read"}, {writes, "write"}, {deletes, "delete"}} {
		if k&e.k != 0 {
			list = append(list, e.name)
		}
	}
	return strings.Join(list, ",")
}

// hourOf returns the part of a log blob's name for its hour, "2011/07/31/1800".
func hourOf(t time.Time) string { return t.UTC().Format("2006/01/02/1500") }
