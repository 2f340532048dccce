package results

import (
	"github.com/microsoft/durabletask-go/api"
	"github.com/microsoft/durabletask-go/backend"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/lazuli-storage/lazuli/internal/durable/event"
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
