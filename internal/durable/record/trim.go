package record

import (
	"strings"

	"github.com/microsoft/durabletask-go/backend"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/lazuli-storage/lazuli/internal/durable/failure"
)

// Bounds of failure details, which travel in messages and rows beside the payload. Clients read messages that are
// nested at most 100 levels deep, and each inner failure is one.
const (
	FailureText  = 4 << 10  // of a type or message, in bytes
	failureStack = 8 << 10  // of a stack trace, in bytes
	failureBytes = 24 << 10 // of a failure with all inside
	failureDepth = 64
)

func TrimFailures(e *Event) {
	TrimFailure(e.GetTaskFailed().GetFailureDetails())
	TrimFailure(e.GetSubOrchestrationInstanceFailed().GetFailureDetails())
	TrimFailure(e.GetExecutionCompleted().GetFailureDetails())
}

// TrimFailure shortens a failure to its bounds. Types and messages at every depth outlast what is only for people: the
// stack traces go first, from the innermost one outward, then what programs have added, then messages are cut.
func TrimFailure(d *backend.TaskFailureDetails) {
	if d == nil {
		return
	}
	var all []*backend.TaskFailureDetails
	for at := d; at != nil; at = at.InnerFailure {
		all = append(all, at)
		if strings.HasPrefix(at.ErrorType, "*") { // The library of the engine names a failure by the type of Go's error.
			at.ErrorType = failure.Unknown
		}
		at.ErrorType, at.ErrorMessage = Cut(at.ErrorType, FailureText), Cut(at.ErrorMessage, FailureText)
		if at.StackTrace != nil {
			at.StackTrace = wrapperspb.String(Cut(at.StackTrace.Value, failureStack))
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
	for n := FailureText / 2; n > 0 && !fits(); n /= 2 {
		for _, at := range all {
			at.ErrorType, at.ErrorMessage = Cut(at.ErrorType, n), Cut(at.ErrorMessage, n)
		}
	}
}

// Cut shortens a text to n bytes at most, between characters.
func Cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && text[n]&0xC0 == 0x80 {
		n--
	}
	return text[:n]
}
