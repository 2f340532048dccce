package wire

import (
	"net/http"
	"strconv"
)

// Header names are written as Azure writes them: they are set in the map directly, without net/http's canonical form.

// Set sets a response header under exactly this name.
func (r *Request) Set(name, value string) { r.Out.Header()[name] = []string{value} }

// SetInt sets a response header to a decimal number.
func (r *Request) SetInt(name string, n int64) { r.Set(name, strconv.FormatInt(n, 10)) }

// serverVersion is the product version in the Server header of every answer.
const serverVersion = "0.1"

// Begin sets the headers that every answer has: Server, Date, x-ms-request-id, x-ms-version, and the client's id.
// The front-end calls it before any answer.
func (r *Request) Begin() {
	h := r.Out.Header()
	h["Server"] = serverHeader[r.Service]
	h["Date"] = []string{FormatRFC1123(r.Now)}
	h["x-ms-request-id"] = []string{r.ID}
	if r.VersionHeader != "" {
		h["x-ms-version"] = []string{r.VersionHeader}
	}
	if r.ClientID != "" {
		h["x-ms-client-request-id"] = []string{r.ClientID}
	}
}

var serverHeader = map[Service][]string{
	Blob:  {"Lazuli-" + Blob.title() + "/" + serverVersion},
	Queue: {"Lazuli-" + Queue.title() + "/" + serverVersion},
	Table: {"Lazuli-" + Table.title() + "/" + serverVersion},
}

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

// XML answers with a document.
func (r *Request) XML(status int, x *XML) error { return r.Body(status, "application/xml", x.Bytes()) }

// Body answers with a body. On HEAD it sends only its headers. It does not report errors of the connection, since no client
// is left to answer.
func (r *Request) Body(status int, contentType string, body []byte) error {
	h := r.Out.Header()
	h["Content-Type"] = []string{contentType}
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	r.Out.WriteHeader(status)
	if r.HTTP.Method != http.MethodHead {
		_, _ = r.Out.Write(body)
	}
	return nil
}
