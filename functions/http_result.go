package functions

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/lazuli-storage/lazuli/functions/internal/jsonvalue"
)

// httpResult is the answer to a request.
type httpResult struct {
	status  int
	headers http.Header
	body    []byte
}

// httpAnswer makes the answer of the http output: an object with statusCode (or status), headers and body; for $return
// also any other value, which is then the body.
func (r *response) httpAnswer(f *function) (*httpResult, error) {
	result := &httpResult{status: http.StatusOK, headers: http.Header{}}
	i := slices.IndexFunc(f.out, func(b *binding) bool { return b.kind == kindHTTP })
	if i < 0 {
		// A function with an HTTP trigger and no output answers without a body.
		result.status = http.StatusNoContent
		return result, nil
	}
	b := f.out[i]
	v := r.output(f, b)
	switch {
	case !v.present():
		return result, nil
	case v.HTTP != nil:
		return b.httpResult(v.HTTP)
	case v.JSON == nil:
		result.body = b.content(v).data
		return result, nil
	}
	value := v.JSON
	text := []byte(jsonvalue.Text(value))
	var members map[string]json.RawMessage
	isObject := json.Unmarshal(text, &members) == nil && members != nil
	member := func(name string) json.RawMessage {
		for n, v := range members {
			if strings.EqualFold(n, name) {
				return jsonvalue.Present(v)
			}
		}
		return nil
	}
	if b.name == returnName {
		// Before the members are looked at: bytes that happen to be an object are a body.
		if c := b.content(v); c.decoded {
			result.body = c.data
			return result, nil
		}
		_, hasBody := members["body"]
		// An object without a body is the body itself: functions return their data so.
		if !isObject || !hasBody && member("body") == nil {
			result.setBody(value)
			return result, nil
		}
	} else if !isObject {
		return nil, fmt.Errorf("the http output %s is not an object with statusCode, headers and body: %.200s", b.name, text)
	}
	for name, raw := range httpHeaders(member("headers")) {
		result.headers[name] = raw
	}
	status := member("statusCode")
	// Both names are in use: .NET writes statusCode, handlers in other languages often status.
	if status == nil {
		status = member("status")
	}
	if status != nil {
		if n, err := strconv.Atoi(jsonvalue.Text(status)); err == nil {
			if err := result.setStatus(b, n); err != nil {
				return nil, err
			}
		}
	}
	result.setBody(member("body"))
	return result, nil
}

// httpResult makes the answer of a language worker's http output.
func (b *binding) httpResult(v *HTTPResponse) (*httpResult, error) {
	result := &httpResult{status: http.StatusOK, headers: http.Header{}}
	for name, values := range v.Header {
		if !hopByHop(name) {
			result.headers[name] = values
		}
	}
	if v.Status != 0 {
		if err := result.setStatus(b, v.Status); err != nil {
			return nil, err
		}
	}
	switch {
	case v.Body == nil:
	case v.Body.JSON == nil:
		result.body = b.content(*v.Body).data
	default:
		result.setBody(v.Body.JSON)
	}
	return result, nil
}

func (r *httpResult) setStatus(b *binding, n int) error {
	if n < 200 || n > 999 {
		return fmt.Errorf("the http output %s has the status %d, which no answer can have", b.name, n)
	}
	r.status = n
	return nil
}

// hopByHop reports whether a header is one that the host sets itself.
func hopByHop(name string) bool {
	switch http.CanonicalHeaderKey(name) {
	case "Content-Length", "Transfer-Encoding", "Connection":
		return true
	}
	return false
}

// setBody makes a body of a value: text as it is, everything else as JSON.
func (r *httpResult) setBody(value json.RawMessage) {
	if jsonvalue.Present(value) == nil {
		return
	}
	kind := "application/json; charset=utf-8"
	if value[0] == '"' {
		kind = "text/plain; charset=utf-8"
	}
	if r.headers.Get("Content-Type") == "" {
		r.headers.Set("Content-Type", kind)
	}
	r.body = []byte(jsonvalue.Text(value))
}

// httpHeaders reads headers. It ignores hop-by-hop headers, which the host sets itself.
func httpHeaders(raw json.RawMessage) http.Header {
	h := http.Header{}
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil {
		return h
	}
	for name, value := range members {
		if hopByHop(name) {
			continue
		}
		var list []json.RawMessage
		if json.Unmarshal(value, &list) != nil {
			list = []json.RawMessage{value}
		}
		for _, v := range list {
			if jsonvalue.Present(v) != nil {
				h.Add(name, jsonvalue.Text(v))
			}
		}
	}
	return h
}

func (r *httpResult) send(w http.ResponseWriter) {
	for name, values := range r.headers {
		w.Header()[name] = values
	}
	if w.Header().Get("Content-Type") == "" {
		w.Header()["Content-Type"] = nil // None, rather than one that is guessed.
	}
	w.WriteHeader(r.status)
	_, _ = w.Write(r.body) // An error means that the client has disconnected.
}
