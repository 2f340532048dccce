package tablesvc

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// setODataHeaders sets the headers of all answers except those to comp requests.
func setODataHeaders(r *wire.Request) {
	r.SetShared("Cache-Control", noCache)
	r.SetShared("X-Content-Type-Options", noSniff)
}

var noCache, noSniff = []string{"no-cache"}, []string{"nosniff"}

// renderError answers with an error: OData JSON or Atom, as the request asks for; XML with x-ms-error-code for the
// operations of comp. It is the front-end's Render.
func renderError(r *wire.Request, e *wire.Error) {
	for _, h := range e.Headers {
		r.Set(h.Name, h.Value)
	}
	if r.HTTP.Method == http.MethodHead || e.Status == http.StatusNotModified {
		_ = r.Status(e.Status)
		return
	}
	if r.Version == 0 && r.HasHeader("X-Ms-Version") { // it cannot be understood, so no format is agreed on (recorded)
		_ = r.Body(e.Status, "application/xml", plainErrorXML(e.Code, r.Message(e)))
		return
	}
	if r.Comp != "" || r.HTTP.Method == http.MethodOptions {
		r.Set("x-ms-error-code", e.Code)
		_ = r.Body(e.Status, "application/xml", errorXML(e.Code, r.Message(e)))
		return
	}
	if e.Is(wire.ErrAuthenticationFailed) {
		renderUnauthenticated(r, e)
		return
	}
	r.SetStandardReason(e) // unlike the operations of comp
	setODataHeaders(r)
	if !cacheControlled(e) {
		r.Out.Header().Del("Cache-Control")
	}
	if m := r.HTTP.Method; r.Header("Accept") == "*/*" && m != http.MethodGet && m != http.MethodPost {
		// Azure answers changes that accept anything in XML, in a form of its own.
		_ = r.Body(e.Status, "application/xml;charset=utf-8", plainErrorXML(e.Code, r.Message(e)))
		return
	}
	f := errorFormat(r)
	_ = r.Body(e.Status, f.contentType(""), f.errorBody(e.Code, r.Message(e)))
}

// renderUnauthenticated answers a caller that has no valid credential. On Azure the part before the service does, which
// knows no OData: it takes JSON if the request accepts JSON, else XML, and names the code in x-ms-error-code, as
// recorded exchanges show.
func renderUnauthenticated(r *wire.Request, e *wire.Error) {
	r.Out.Header().Del("x-ms-version")
	r.Set("x-ms-error-code", e.Code)
	if f := errorFormat(r); !f.atom && strings.Contains(r.Header("Accept"), "application/json") {
		_ = r.Body(e.Status, "application/json", f.errorBody(e.Code, r.Message(e)))
		return
	}
	_ = r.Body(e.Status, "application/xml", errorXML(e.Code, r.Message(e)))
}

// cacheControlled reports whether the answer with e has Cache-Control. Azure leaves it out where a request is refused
// for its form or for a condition that no entity could meet, as recorded exchanges show.
func cacheControlled(e *wire.Error) bool {
	return e.Code != wire.ErrInvalidInput.Code && e.Code != wire.ErrConditionNotMet.Code
}

// errorFormat returns the format of the request's errors: the requested one if the version supports it, else the
// version's default.
func errorFormat(r *wire.Request) format {
	v := versionOf(r)
	f, err := acceptedFormat(v, r.Query.Get("$format"), r.Header("Accept"))
	if err != nil {
		return defaultFormat(v)
	}
	return f
}

// errorBody returns the document of an error.
func (f format) errorBody(code, message string) []byte {
	if f.atom {
		return errorXML(code, message)
	}
	text, err := json.Marshal(message)
	if err != nil { // impossible for a string
		text = []byte(`""`)
	}
	b := append([]byte(`{"odata.error":{"code":"`), code...)
	b = append(b, `","message":{"lang":"en-US","value":`...)
	b = append(b, text...)
	return append(b, "}}}"...)
}

// errorXML returns the document of an error in XML, without a byte order mark.
func errorXML(code, message string) []byte {
	x := wire.NewXML(512).Open("m:error", "xmlns:m", "http://schemas.microsoft.com/ado/2007/08/dataservices/metadata").
		Text("m:code", code).
		Open("m:message", "xml:lang", "en-US")
	x.Raw(escapeXML(message)).Close("m:message").Close("m:error")
	return x.Bytes()[3:]
}

// plainErrorXML returns the document of an error in XML without a prefix for its namespace.
func plainErrorXML(code, message string) []byte {
	x := wire.NewXML(512).Open("error", "xmlns",
		"http://schemas.microsoft.com/ado/2007/08/dataservices/metadata").Text("code", code).
		Open("message", "xml:lang", "en-US")
	x.Raw(escapeXML(message)).Close("message").Close("error")
	return x.Bytes()[3:]
}

// escapeXML escapes text for XML.
func escapeXML(s string) string {
	x := new(wire.XML).Text("x", s)
	b := x.Bytes()
	if len(b) < len("<x></x>") {
		return ""
	}
	return string(b[3 : len(b)-4])
}
