package durable

import (
	"cmp"
	"errors"
	"reflect"
	"strings"

	"github.com/microsoft/durabletask-go/backend"
	"github.com/microsoft/durabletask-go/task"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

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

// FailureFrom returns the failure of an error: the details inside it, or one of a kind with its text.
func FailureFrom(err error, kind string) *backend.TaskFailureDetails {
	if f := (*Failure)(nil); errors.As(err, &f) {
		return failureOf(err)
	}
	return NewFailure(kind, err.Error())
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
	d, err := FailureFromProtocol(p)
	if err != nil { // A text that is not UTF-8.
		d = NewFailure(failure.Unknown, strings.ToValidUTF8(f.Message, "\uFFFD"))
	}
	d.InnerFailure = failureDetails(f.Inner)
	return d
}

// taskError is the error of a task that has failed.
type taskError struct {
	error
	failure *Failure
}

// Unwrap returns the task's failure, and the error of the engine's library.
func (e *taskError) Unwrap() []error { return []error{e.failure, e.error} }

// withFailure adds to the error of a task's Await the failure that the task has. The library keeps it in a field
// without a method, and gives its message alone.
func withFailure(t task.Task, err error) error {
	v := reflect.ValueOf(t)
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	if v.Kind() != reflect.Struct {
		return err
	}
	v = v.FieldByName("failureDetails")
	if f := failureIn(v); f != nil && strings.HasSuffix(err.Error(), f.Message) {
		return &taskError{err, f}
	}
	return err
}

// failureIn reads a pointer to failure details in a field that this package cannot take the value of.
func failureIn(v reflect.Value) *Failure {
	if v.Kind() != reflect.Pointer || v.IsNil() {
		return nil
	}
	v = v.Elem()
	kind, message := v.FieldByName("ErrorType"), v.FieldByName("ErrorMessage")
	if kind.Kind() != reflect.String || message.Kind() != reflect.String {
		return nil
	}
	f := &Failure{Type: kind.String(), Message: message.String(), Inner: failureIn(v.FieldByName("InnerFailure"))}
	if n := v.FieldByName("IsNonRetriable"); n.Kind() == reflect.Bool {
		f.NonRetriable = n.Bool()
	}
	if s := v.FieldByName("StackTrace"); s.Kind() == reflect.Pointer && !s.IsNil() {
		if text := s.Elem().FieldByName("Value"); text.Kind() == reflect.String {
			f.Stack = text.String()
		}
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
