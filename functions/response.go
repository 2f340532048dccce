package functions

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strings"

	"github.com/lazuli-storage/lazuli/functions/internal/jsonvalue"
)

// response is what a function returned, by whichever way it was called.
type response struct {
	outputs  map[string]Value
	returned Value
	logs     []string
	// forwarded: the answer to the HTTP request is given already.
	forwarded bool
}

// handlerResponse is a custom handler's response: HttpScriptInvocationResult of the Functions host.
type handlerResponse struct {
	Outputs     map[string]json.RawMessage
	Logs        []json.RawMessage
	ReturnValue json.RawMessage
}

// maxExcerpt bounds what an error quotes of an answer.
const maxExcerpt = 512

// parseResponse reads an answer. Anything but a 2xx with a JSON object is a failure.
func parseResponse(status int, header http.Header, body []byte) (*response, error) {
	excerpt := strings.ToValidUTF8(string(body[:min(len(body), maxExcerpt)]), "?")
	if status < 200 || status > 299 {
		return nil, fmt.Errorf("the handler answered %d %s: %s", status, http.StatusText(status), excerpt)
	}
	kind, _, _ := mime.ParseMediaType(header.Get("Content-Type"))
	if kind != "application/json" && kind != "text/json" {
		return nil, fmt.Errorf("the handler's answer has the content type %q, want application/json: %s",
			header.Get("Content-Type"), excerpt)
	}
	if strings.TrimSpace(excerpt) == "" {
		return nil, errors.New(`the handler's answer is empty, want at least {}`)
	}
	var r *handlerResponse
	if err := json.Unmarshal(body, &r); err != nil {
		return nil, fmt.Errorf("the handler's answer is not {\"Outputs\": {...}, \"Logs\": [...], \"ReturnValue\": ...}: "+
			"%w: %s", err, excerpt)
	}
	if r == nil {
		return nil, errors.New("the handler's answer is null, want an object")
	}
	answer := &response{outputs: map[string]Value{}, returned: Value{JSON: jsonvalue.Present(r.ReturnValue)}}
	for name, raw := range r.Outputs {
		answer.outputs[name] = Value{JSON: jsonvalue.Present(raw)}
	}
	for _, raw := range r.Logs {
		answer.logs = append(answer.logs, jsonvalue.Text(raw))
	}
	return answer, nil
}

// output returns the value for an output binding.
//
// ReturnValue goes to the binding called $return. Without such a binding the members of a ReturnValue that is an object
// count as outputs, and go before Outputs.
func (r *response) output(f *function, b *binding) Value {
	if b.name == returnName {
		return r.returned
	}
	if !f.hasReturn() && r.returned.JSON != nil {
		var members map[string]json.RawMessage
		if json.Unmarshal(r.returned.JSON, &members) == nil {
			if v := jsonvalue.Present(members[b.name]); v != nil {
				return Value{JSON: v, Literal: r.returned.Literal}
			}
		}
	}
	return r.outputs[b.name]
}

// contents makes the items of an output: a list is several, everything else one. Text that is a JSON list counts as
// one.
func (b *binding) contents(v Value) []content {
	if v.Items != nil {
		items := make([]content, 0, len(v.Items))
		for _, item := range v.Items {
			items = append(items, b.content(item))
		}
		return items
	}
	list, isList := jsonvalue.List(v.JSON)
	if v.JSON == nil || !isList {
		return []content{b.content(v)}
	}
	items := make([]content, 0, len(list))
	for _, item := range list {
		if jsonvalue.Present(item) != nil {
			items = append(items, content{data: []byte(jsonvalue.Text(item))})
		}
	}
	return items
}

// content is one message or blob.
type content struct {
	data []byte
	// decoded: the function wrote base64.
	decoded bool
}

// content takes a value as the Functions host does: text that happens to be base64 is decoded, unless dataType is
// binary.
func (b *binding) content(v Value) content {
	if v.JSON == nil {
		return content{data: v.Bytes}
	}
	raw := v.JSON
	var text string
	if raw[0] == '"' && !b.binary && !v.Literal && json.Unmarshal(raw, &text) == nil {
		if data, ok := fromBase64(text); ok {
			return content{data: data, decoded: true}
		}
	}
	return content{data: []byte(jsonvalue.Text(raw))}
}

// fromBase64 decodes what .NET's Convert.FromBase64String takes: white space is skipped, padding is needed.
func fromBase64(text string) ([]byte, bool) {
	text = strings.Map(func(r rune) rune {
		switch r {
		case ' ', '\t', '\r', '\n':
			return -1
		}
		return r
	}, text)
	if text == "" {
		return nil, false // An empty text is empty either way.
	}
	data, err := base64.StdEncoding.DecodeString(text)
	return data, err == nil
}
