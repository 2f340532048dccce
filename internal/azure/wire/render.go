package wire

import (
	"net/http"

	"github.com/lazuli-storage/lazuli/internal/httpserver/statusline"
)

// SetReason makes the first line of e's message the reason phrase of the answer, as in Azure's answers of which the
// services, not the parts before them, are the origin. The front-end calls it before an error is rendered.
func (r *Request) SetReason(e *Error) {
	if !e.Bare {
		statusline.SetReason(r.Out, e.Status, e.Message)
	}
}

// SetStandardReason takes back [Request.SetReason].
func (r *Request) SetStandardReason(e *Error) { statusline.SetReason(r.Out, e.Status, "") }

// RenderXML answers with e as the Blob and Queue services do: x-ms-error-code, and an XML document unless the
// request is HEAD or the status has no body.
// https://learn.microsoft.com/rest/api/storageservices/status-and-error-codes2
func RenderXML(r *Request, e *Error) {
	h := r.Out.Header()
	if e.Bare || e.NoVersion {
		delete(h, "x-ms-version")
	}
	if !e.Bare && !(r.Version != 0 && r.Version < V20170729) { // recorded of no earlier version
		h["x-ms-error-code"] = []string{e.Code}
	}
	for _, d := range e.Headers {
		h[d.Name] = []string{d.Value}
	}
	if r.HTTP.Method == http.MethodHead || e.Status == http.StatusNotModified || e.Status == http.StatusNoContent {
		_ = r.Status(e.Status)
		return
	}
	x := NewXML(512).Open("Error").Text("Code", e.Code).Text("Message", r.Message(e))
	for _, d := range e.Details {
		x.Text(d.Name, d.Value)
	}
	_ = r.XML(e.Status, x.Close("Error"))
}

// Message returns e's text with the request's id and time, as in error documents.
func (r *Request) Message(e *Error) string {
	return e.Message + "\nRequestId:" + r.ID + "\nTime:" + FormatISO7(r.Now)
}
