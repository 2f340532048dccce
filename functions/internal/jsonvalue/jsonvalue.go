// Package jsonvalue has the forms in which the Functions host exchanges values with functions: what .NET makes of a
// value in JSON, and of JSON as text. It is a floor below everything that reads or writes bindings.
package jsonvalue

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Wire converts a value for Data and Metadata. Objects remain objects, times become text, bytes become base64.
// Everything else is text that holds JSON: a message "hi" is sent as "\"hi\"", and a number 5 as "5".
func Wire(value any) any {
	switch v := value.(type) {
	case []byte:
		return base64.StdEncoding.EncodeToString(v)
	case time.Time:
		return v.UTC().Format("2006-01-02T15:04:05+00:00")
	}
	text, err := Marshal(value)
	if err != nil {
		return "null"
	}
	if text[0] == '{' {
		return json.RawMessage(text)
	}
	return string(text)
}

// Marshal writes JSON without HTML's escapes.
func Marshal(value any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// Time writes a time as .NET writes a DateTime: down to 100 ns, without zeros at the end.
func Time(t time.Time) string {
	return t.UTC().Truncate(100 * time.Nanosecond).Format("2006-01-02T15:04:05.9999999Z")
}

// Present returns a value, or nil for null and for a value that is missing.
func Present(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	return raw
}

// Text is a JSON value as text: a string's own, of everything else the JSON.
func Text(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return Plain(raw)
}

// List returns the elements of a list, or of a text that holds one.
func List(raw json.RawMessage) ([]json.RawMessage, bool) {
	text := strings.TrimSpace(Text(raw))
	if !strings.HasPrefix(text, "[") {
		return nil, false
	}
	var list []json.RawMessage
	return list, json.Unmarshal([]byte(text), &list) == nil
}

// Plain formats a value for a name or a path.
func Plain(value any) string {
	switch v := value.(type) {
	case string:
		return v
	case []byte:
		return base64.StdEncoding.EncodeToString(v)
	case json.RawMessage:
		var b bytes.Buffer
		if json.Compact(&b, v) == nil {
			return b.String()
		}
		return string(v)
	}
	return fmt.Sprint(value)
}

// Respond answers a request with a value as JSON.
func Respond(w http.ResponseWriter, status int, value any) {
	text, err := Marshal(value)
	if err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(text)
}
