// Package failure has the details of what fails in a workflow: those that the caller of an activity, a workflow or an
// entity's operation gets, in whatever language. It links no protocol, so that hosts of functions can make them.
package failure

import (
	"encoding/json"
	"errors"
	"strings"

	"github.com/lazuli-storage/lazuli/internal/lazyregexp"
)

// Unknown is the type of a failure whose own type has no meaning to other programs, as those of Go's errors.
const Unknown = "Error"

// Details say why something has failed. They are an error, whose text is Message: a function that returns them, also
// inside another error, fails with them.
type Details struct {
	// Type names the kind of failure. In .NET and Java it is the exception's class, which callers compare. Empty: Unknown.
	Type string
	// Message is the text for people.
	Message string
	// Stack is the stack trace; empty without one.
	Stack string
	// Inner is the failure that led to this one; nil without one.
	Inner *Details
	// NonRetriable: a retry policy makes no further attempt.
	NonRetriable bool
	// Properties are further values that a program has added.
	Properties map[string]any
}

// Error implements error.
func (d *Details) Error() string { return d.Message }

// Unwrap returns the failure that led to this one.
func (d *Details) Unwrap() error {
	if d.Inner == nil {
		return nil
	}
	return d.Inner
}

// Of returns the details of an error. Details inside err are kept: as they are if err has no text of its own, otherwise
// as the inner failure. Types of Go's errors mean nothing to callers, and are not used.
func Of(err error) *Details {
	var inner *Details
	if !errors.As(err, &inner) {
		return &Details{Type: Unknown, Message: err.Error()}
	}
	if err.Error() == inner.Message {
		return inner
	}
	return &Details{Type: Unknown, Message: err.Error(), Inner: inner, NonRetriable: inner.NonRetriable}
}

// serialized is a failure as the worker of .NET's function apps writes it.
type serialized struct {
	ErrorType    *string        `json:"errorType"`
	ErrorMessage *string        `json:"errorMessage"`
	StackTrace   string         `json:"stackTrace"`
	Inner        *serialized    `json:"innerFailure"`
	NonRetriable bool           `json:"isNonRetriable"`
	Properties   map[string]any `json:"properties"`
}

func (s *serialized) details() *Details {
	if s == nil {
		return nil
	}
	d := &Details{Stack: s.StackTrace, Inner: s.Inner.details(), NonRetriable: s.NonRetriable, Properties: s.Properties}
	if s.ErrorType != nil {
		d.Type = *s.ErrorType
	}
	if s.ErrorMessage != nil {
		d.Message = *s.ErrorMessage
	}
	return d
}

// FromException returns the details of an exception that a language's worker reports. The worker of .NET writes the
// failure of an activity as JSON into the message.
// https://github.com/Azure/azure-functions-durable-extension (DurableSerializationException)
func FromException(kind, message, stack string) *Details {
	if strings.HasPrefix(message, "{") {
		s := &serialized{}
		if json.Unmarshal([]byte(message), s) == nil && s.ErrorType != nil && s.ErrorMessage != nil {
			return s.details()
		}
	}
	return &Details{Type: kind, Message: message, Stack: stack}
}

// exceptionType matches a text that begins with the name of an exception's class.
var exceptionType = lazyregexp.New(`^([A-Za-z_][\w.$+]*): `)

// Typed returns details whose message begins with the type, "Type: message", with the type apart, if they have no type
// of their own. The functions' host does so for workers that use messages of the Durable Task protocol.
// https://github.com/Azure/azure-functions-durable-extension (OutOfProcMiddleware.GetFailureDetails)
func Typed(d *Details) *Details {
	m := exceptionType().FindStringSubmatch(d.Message)
	if m == nil || d.Type != "" && d.Type != m[1] && !strings.HasSuffix(d.Type, "."+m[1]) {
		return d
	}
	n := *d
	if n.Message = d.Message[len(m[0]):]; n.Type == "" {
		n.Type = m[1]
	}
	return &n
}
