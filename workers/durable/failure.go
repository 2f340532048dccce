package durable

import (
	"cmp"
	"errors"
	"strings"

	"github.com/microsoft/durabletask-go/backend"
	"google.golang.org/protobuf/proto"
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

// Bounds of failure details, which travel in messages and rows beside the payload. Clients read messages that are
// nested at most 100 levels deep, and each inner failure is one.
const (
	failureText  = 4 << 10  // of a type or message, in bytes
	failureStack = 8 << 10  // of a stack trace, in bytes
	failureBytes = 24 << 10 // of a failure with all inside
	failureDepth = 64
)

func trimFailures(e *Event) {
	trimFailure(e.GetTaskFailed().GetFailureDetails())
	trimFailure(e.GetSubOrchestrationInstanceFailed().GetFailureDetails())
	trimFailure(e.GetExecutionCompleted().GetFailureDetails())
}

// trimFailure shortens a failure to its bounds. Types and messages at every depth outlast what is only for people: the
// stack traces go first, from the innermost one outward, then what programs have added, then messages are cut.
func trimFailure(d *backend.TaskFailureDetails) {
	if d == nil {
		return
	}
	var all []*backend.TaskFailureDetails
	for at := d; at != nil; at = at.InnerFailure {
		all = append(all, at)
		if strings.HasPrefix(at.ErrorType, "*") { // The library of the engine names a failure by the type of Go's error.
			at.ErrorType = failure.Unknown
		}
		at.ErrorType, at.ErrorMessage = cut(at.ErrorType, failureText), cut(at.ErrorMessage, failureText)
		if at.StackTrace != nil {
			at.StackTrace = wrapperspb.String(cut(at.StackTrace.Value, failureStack))
		}
		if len(all) == failureDepth {
			at.InnerFailure = nil
		}
	}
	fits := func() bool { return proto.Size(d) <= failureBytes }
	for i := len(all) - 1; i >= 0 && !fits(); i-- {
		all[i].StackTrace = nil
	}
	for i := len(all) - 1; i >= 0 && !fits(); i-- {
		all[i].ProtoReflect().SetUnknown(nil) // Properties.
	}
	for n := failureText / 2; n > 0 && !fits(); n /= 2 {
		for _, at := range all {
			at.ErrorType, at.ErrorMessage = cut(at.ErrorType, n), cut(at.ErrorMessage, n)
		}
	}
}
