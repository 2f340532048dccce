package wire

import (
	"net/http"
	"strconv"

	"github.com/lazuli-storage/lazuli/internal/buildinfo"
)

// Header names are written as Azure writes them: they are set in the map directly, without net/http's canonical form.

// Set sets a response header under exactly this name.
func (r *Request) Set(name, value string) { r.Out.Header()[name] = r.values.of(value) }

// headerValues has room for the values of a usual answer's headers, so that they need no allocations of their own.
type headerValues struct {
	room [10]string
	used int
}

// of returns a list of one value.
func (v *headerValues) of(value string) []string {
	if v.used == len(v.room) {
		return []string{value}
	}
	v.room[v.used] = value
	v.used++
	return v.room[v.used-1 : v.used : v.used]
}

// SetShared sets a response header to values that are never changed.
func (r *Request) SetShared(name string, values []string) { r.Out.Header()[name] = values }

// SetInt sets a response header to a decimal number.
func (r *Request) SetInt(name string, n int64) { r.Set(name, strconv.FormatInt(n, 10)) }

// Begin sets the headers that every answer has: Server, Date, x-ms-request-id, x-ms-version, and the client's id.
// The front-end calls it before any answer.
func (r *Request) Begin() {
	h := r.Out.Header()
	h["Server"] = serverHeader
	h["Date"] = r.values.of(FormatRFC1123(r.Now))
	h["x-ms-request-id"] = r.values.of(r.ID)
	if r.VersionHeader != "" {
		h["x-ms-version"] = r.values.of(r.VersionHeader)
	}
	if r.ClientID != "" {
		h["x-ms-client-request-id"] = r.values.of(r.ClientID)
	}
}

// serverHeader is shared: header values are never changed. Azure's value names its own product.
var serverHeader = []string{"Lazuli/" + buildinfo.Current().Version}

// zeroLength is shared: header values are never changed.
var zeroLength = []string{"0"}

// Status answers with a status and no body.
func (r *Request) Status(status int) error {
	if status != http.StatusNoContent && status != http.StatusNotModified {
		r.Out.Header()["Content-Length"] = zeroLength
	}
	r.Out.WriteHeader(status)
	return nil
}

// XML answers with a document, which must not be used afterwards.
func (r *Request) XML(status int, x *XML) error {
	err := r.Body(status, "application/xml", x.buf)
	if cap(x.buf) <= maxPooled {
		documents.Put(x)
	}
	return err
}

// Body answers with a body. On HEAD it sends only its headers. It does not report errors of the connection, since no
// client is left to answer.
func (r *Request) Body(status int, contentType string, body []byte) error {
	h := r.Out.Header()
	h["Content-Type"] = r.values.of(contentType)
	h["Content-Length"] = r.values.of(strconv.Itoa(len(body)))
	r.Out.WriteHeader(status)
	if r.HTTP.Method != http.MethodHead {
		_, _ = r.Out.Write(body)
	}
	return nil
}
