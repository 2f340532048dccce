package wire

import (
	"fmt"
	"slices"
)

// Error is a failure as a client sees it: an HTTP status, Azure's error code, and a message. Every service's
// catalogue is a list of these; a service returns one (or wraps one) and the front-end renders it.
//
// An Error in a catalogue is shared and must not be changed: [Error.With] and [Error.WithHeader] return copies.
// https://learn.microsoft.com/rest/api/storageservices/status-and-error-codes2
type Error struct {
	// Status is the HTTP status.
	Status int
	// Code is Azure's error code, the identity of the failure: errors.Is compares it and the status.
	Code string
	// Message is the text for people. The renderers append the request id and the time, as Azure does.
	Message string
	// Details are additional elements of the error document, such as HeaderName and HeaderValue.
	Details []Detail
	// Headers are sent with the answer.
	Headers []Detail
	// Bare answers go without x-ms-error-code and x-ms-version: Azure refuses some requests before its services see them.
	Bare bool
	// NoVersion answers go without x-ms-version.
	NoVersion bool
}

// Detail is a name and a value of an error.
type Detail struct{ Name, Value string }

// Error implements error.
func (e *Error) Error() string { return fmt.Sprintf("%d %s: %s", e.Status, e.Code, e.Message) }

// Is reports whether target is the same failure: same status and code, whatever its message and details.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Status == e.Status && t.Code == e.Code
}

// With returns a copy of e with one more element in the error document.
func (e *Error) With(name, value string) *Error {
	c := *e
	c.Details = append(slices.Clip(c.Details), Detail{name, value})
	return &c
}

// WithHeader returns a copy of e with one more header of the answer.
func (e *Error) WithHeader(name, value string) *Error {
	c := *e
	c.Headers = append(slices.Clip(c.Headers), Detail{name, value})
	return &c
}

// WithMessage returns a copy of e with another text.
func (e *Error) WithMessage(message string) *Error {
	c := *e
	c.Message = message
	return &c
}
