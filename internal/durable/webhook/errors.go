package webhook

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
)

// apiError is an answer that is not a success. Without a message it has no body.
type apiError struct {
	status  int
	message string
	cause   error
	// text: the body is the message as a JSON string instead of an object.
	text bool
}

func (e *apiError) Error() string {
	if e.cause != nil {
		return e.message + ": " + e.cause.Error()
	}
	return e.message
}

func (e *apiError) Unwrap() error { return e.cause }

func (e *apiError) write(w http.ResponseWriter) {
	switch {
	case e.message == "":
		w.WriteHeader(e.status)
	case e.text:
		writeJSON(w, e.status, e.message)
	default:
		body := map[string]string{"Message": e.message}
		if e.cause != nil {
			body["ExceptionMessage"] = e.cause.Error()
		} else if e.status == http.StatusBadRequest {
			body["ExceptionMessage"] = e.message // azure-functions-durable for Python reports this one, and needs it
		}
		writeJSON(w, e.status, body)
	}
}

func status(code int) error { return &apiError{status: code} }

func badRequest(format string, args ...any) error {
	return &apiError{status: http.StatusBadRequest, message: fmt.Sprintf(format, args...)}
}

func notImplemented(message string) error {
	return &apiError{status: http.StatusNotImplemented, message: message}
}

func writeJSON(w http.ResponseWriter, status int, value any) {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false) // Payloads are answered as they were given.
	if err := e.Encode(value); err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(bytes.TrimSuffix(text.Bytes(), []byte("\n")))
}
