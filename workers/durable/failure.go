package durable

import (
	"errors"
	"strings"

	"github.com/microsoft/durabletask-go/backend"

	"github.com/lazuli-storage/lazuli/internal/durable/event"
	"github.com/lazuli-storage/lazuli/internal/durable/failure"
	"github.com/lazuli-storage/lazuli/internal/durable/protocol"
	"github.com/lazuli-storage/lazuli/internal/durable/results"
	"github.com/lazuli-storage/lazuli/workers"
)

// Failure says why an activity, a workflow or an entity's operation has failed. It is an error, whose text is Message:
// a function that returns one, also inside another error, fails with it; errors.As finds the one of a task that has
// failed in the error of [Await], [Call], [CallWorkflow] and [CallEntity]. Callers in every language get the same
// details. The failure of another error has the type "Error": names of Go's types mean nothing to callers.
type Failure struct {
	// Type names the kind of failure. In .NET and Java it is the exception's class, which callers compare. Empty: "Error".
	Type string
	// Message is the text for people.
	Message string
	// Stack is the stack trace; empty without one.
	Stack string
	// Inner is the failure that led to this one; nil without one.
	Inner *Failure
	// NonRetriable: a retry policy makes no further attempt.
	NonRetriable bool
	// Properties are further values that a program has added.
	Properties map[string]any
}

// Error implements error.
func (f *Failure) Error() string { return f.Message }

// Unwrap returns the failure that led to this one.
func (f *Failure) Unwrap() error {
	if f.Inner == nil {
		return nil
	}
	return f.Inner
}

// As implements the method that errors.As looks for: the engine finds the details of a failure by it.
func (f *Failure) As(target any) bool {
	d, ok := target.(**failure.Details)
	if ok {
		*d = f.details()
	}
	return ok
}

// details returns the failure as the engine and the hosts of functions have it.
func (f *Failure) details() *failure.Details {
	if f == nil {
		return nil
	}
	return &failure.Details{Type: f.Type, Message: f.Message, Stack: f.Stack, Inner: f.Inner.details(),
		NonRetriable: f.NonRetriable, Properties: f.Properties}
}

// failureOf returns the details of an error in the engine's form.
func failureOf(err error) *backend.TaskFailureDetails {
	return results.FailureOf(err, workers.IsPermanent(err))
}

// failureOr returns the failure of an error: the details inside it, or one of a kind with its text.
func failureOr(err error, kind string) *backend.TaskFailureDetails {
	if f := (*failure.Details)(nil); errors.As(err, &f) {
		return failureOf(err)
	}
	return event.NewFailure(kind, err.Error())
}

// failureFrom returns a failure from the engine's form.
func failureFrom(d *backend.TaskFailureDetails) *Failure {
	p, err := event.FailureToProtocol(d)
	if err != nil { // A text that is not UTF-8.
		return &Failure{Type: d.GetErrorType(), Message: strings.ToValidUTF8(d.GetErrorMessage(), "\uFFFD")}
	}
	return failureFromProtocol(p)
}

// failureFromProtocol returns a failure from the protocol's form; nil for nil.
func failureFromProtocol(p *protocol.TaskFailureDetails) *Failure {
	if p == nil {
		return nil
	}
	f := &Failure{Type: p.ErrorType, Message: p.ErrorMessage, Stack: p.StackTrace.GetValue(),
		Inner: failureFromProtocol(p.InnerFailure), NonRetriable: p.IsNonRetriable}
	for name, v := range p.Properties {
		if f.Properties == nil {
			f.Properties = map[string]any{}
		}
		f.Properties[name] = v.AsInterface()
	}
	return f
}
