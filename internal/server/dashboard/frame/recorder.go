package frame

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/http"
)

// Ask sends a request to a handler of this process.
func Ask(r *http.Request, h http.Handler, method, path string) ([]byte, error) {
	hr, err := http.NewRequestWithContext(r.Context(), method, path, nil)
	if err != nil {
		return nil, err
	}
	a := NewAnswer()
	h.ServeHTTP(a, hr)
	if a.Status/100 != 2 {
		var refusal struct{ Error string }
		_ = json.Unmarshal(a.Body.Bytes(), &refusal) // "" of an answer of another form
		return nil, Problem{a.Status, cmp.Or(refusal.Error, http.StatusText(a.Status)), ""}
	}
	return a.Body.Bytes(), nil
}

// Answer keeps the response of a handler of this process.
type Answer struct {
	Status int
	Body   bytes.Buffer
	header http.Header
}

// NewAnswer makes an empty answer.
func NewAnswer() *Answer { return &Answer{Status: http.StatusOK, header: make(http.Header)} }

// Header implements http.ResponseWriter.
func (a *Answer) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter.
func (a *Answer) WriteHeader(status int) { a.Status = status }

// Write implements http.ResponseWriter.
func (a *Answer) Write(p []byte) (int, error) { return a.Body.Write(p) }
