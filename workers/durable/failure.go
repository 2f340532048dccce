package durable

import (
	"cmp"
	"errors"
	"strings"

	"github.com/microsoft/durabletask-go/backend"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/lazuli-storage/lazuli/internal/durable/event"
	"github.com/lazuli-storage/lazuli/internal/durable/failure"
	"github.com/lazuli-storage/lazuli/internal/durable/protocol"
	"github.com/lazuli-storage/lazuli/workers"
)

// Failure says why an activity, a workflow or an entity's operation has failed: type, message, stack, and the failures
// that led to it. A function that returns one, also inside another error, fails with it; errors.As finds the one of a
// task that has failed in the error of [Await], [Call], [CallWorkflow] and [CallEntity]. Callers in every language get
// the same details. The failure of another error has the type "Error": names of Go's types mean nothing to callers.
type Failure = failure.Details

// failureOf returns the details of an error in the engine's form.
func failureOf(err error) *backend.TaskFailureDetails {
	d := failureDetails(failure.Of(err))
	d.IsNonRetriable = d.IsNonRetriable || workers.IsPermanent(err)
	return d
}

// failureOr returns the failure of an error: the details inside it, or one of a kind with its text.
func failureOr(err error, kind string) *backend.TaskFailureDetails {
	if f := (*Failure)(nil); errors.As(err, &f) {
		return failureOf(err)
	}
	return event.NewFailure(kind, err.Error())
}

func failureDetails(f *Failure) *backend.TaskFailureDetails {
	if f == nil {
		return nil
	}
	p := &protocol.TaskFailureDetails{ErrorType: cmp.Or(f.Type, failure.Unknown), ErrorMessage: f.Message,
		IsNonRetriable: f.NonRetriable}
	if f.Stack != "" {
		p.StackTrace = wrapperspb.String(f.Stack)
	}
	for name, value := range f.Properties {
		if v, err := structpb.NewValue(value); err == nil { // Others have no form in the protocol.
			if p.Properties == nil {
				p.Properties = map[string]*structpb.Value{}
			}
			p.Properties[name] = v
		}
	}
	d, err := event.FailureFromProtocol(p)
	if err != nil { // A text that is not UTF-8.
		d = event.NewFailure(failure.Unknown, strings.ToValidUTF8(f.Message, "\uFFFD"))
	}
	d.InnerFailure = failureDetails(f.Inner)
	return d
}

// failureFrom returns the details of a failure in the engine's form.
func failureFrom(d *backend.TaskFailureDetails) *Failure {
	p, err := event.FailureToProtocol(d)
	if err != nil { // A text that is not UTF-8.
		return &Failure{Type: d.GetErrorType(), Message: strings.ToValidUTF8(d.GetErrorMessage(), "\uFFFD")}
	}
	return failureFromProtocol(p)
}

// failureFromProtocol returns the details of a failure in the protocol's form.
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
