package results

import (
	"cmp"
	"strings"

	"github.com/microsoft/durabletask-go/api"
	"github.com/microsoft/durabletask-go/backend"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/lazuli-storage/lazuli/internal/durable/event"
	"github.com/lazuli-storage/lazuli/internal/durable/failure"
	"github.com/lazuli-storage/lazuli/internal/durable/protocol"
)

// FailedWith ends an instance as failed.
func FailedWith(id api.InstanceID, kind, text string) *backend.ExecutionResults {
	return FailedAs(id, event.NewFailure(kind, text))
}

// FailedAs is FailedWith with details.
func FailedAs(id api.InstanceID, details *backend.TaskFailureDetails) *backend.ExecutionResults {
	r := New()
	r.Response.InstanceId = string(id)
	m := r.Response.ProtoReflect()
	actions := m.Mutable(m.Descriptor().Fields().ByName("actions")).List()
	action := actions.AppendMutable().Message()
	done := action.Mutable(action.Descriptor().Fields().ByName("completeOrchestration")).Message()
	fields := done.Descriptor().Fields()
	done.Set(fields.ByName("orchestrationStatus"),
		protoreflect.ValueOfEnum(protoreflect.EnumNumber(api.RUNTIME_STATUS_FAILED)))
	done.Set(fields.ByName("failureDetails"), protoreflect.ValueOfMessage(proto.Message(details).ProtoReflect()))
	return r
}

// FailureOf returns the details of an error in the engine's form. One that is permanent is not retried.
func FailureOf(err error, permanent bool) *backend.TaskFailureDetails {
	d := fromDetails(failure.Of(err))
	d.IsNonRetriable = d.IsNonRetriable || permanent
	return d
}

// fromDetails returns details in the engine's form; nil for nil.
func fromDetails(f *failure.Details) *backend.TaskFailureDetails {
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
	d.InnerFailure = fromDetails(f.Inner)
	return d
}
