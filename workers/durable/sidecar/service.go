package sidecar

import (
	"context"
	"errors"
	"strings"

	"github.com/google/uuid"
	"github.com/microsoft/durabletask-go/backend"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/lazuli-storage/lazuli/internal/sdk/sdkerr"
	"github.com/lazuli-storage/lazuli/workers/durable"
)

// describe returns the protocol's service with handlers that find the call's hub and pass it on to the engine's implementation for it. Calls
// that the engine does not implement are answered here.
func (s *Server) describe() (*grpc.ServiceDesc, error) {
	model, err := s.newHub(s.options.Durable.Hub)
	if err != nil {
		return nil, err
	}
	d := &grpc.ServiceDesc{ServiceName: model.description.ServiceName, HandlerType: (*any)(nil), Metadata: model.description.Metadata}
	for i, m := range model.description.Methods {
		handler := s.pass(i)
		if own := methods[m.MethodName]; own != nil {
			handler = s.answer(own)
		} else if strings.Contains(m.MethodName, "Entit") {
			handler = refuseEntities
		}
		d.Methods = append(d.Methods, grpc.MethodDesc{MethodName: m.MethodName, Handler: handler})
	}
	for i, m := range model.description.Streams {
		m.Handler = s.passStream(i, m.StreamName == "GetWorkItems")
		d.Streams = append(d.Streams, m)
	}
	return d, nil
}

type methodHandler = func(srv any, ctx context.Context, dec func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error)

// pass hands a call to the engine's implementation for the call's hub.
func (s *Server) pass(i int) methodHandler {
	return func(_ any, ctx context.Context, dec func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
		h, err := s.hub(ctx)
		if err != nil {
			return nil, asStatus(err)
		}
		handle := h.description.Methods[i].Handler
		return handle(h.service, ctx, func(v any) error {
			if err := dec(v); err != nil {
				return err
			}
			return complete(v)
		}, func(ctx context.Context, request any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			return interceptor(traced(ctx, request), request, info, next)
		})
	}
}

// refuseEntities answers the calls for entities: SignalEntity, GetEntity, QueryEntities, CleanEntityStorage.
func refuseEntities(_ any, _ context.Context, _ func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
	return nil, status.Error(codes.Unimplemented, "entities (durable objects) are not supported")
}

// refuseUnknown answers the calls of newer versions of the protocol.
func refuseUnknown(_ any, stream grpc.ServerStream) error {
	name, _ := grpc.MethodFromServerStream(stream)
	return status.Errorf(codes.Unimplemented, "the call %s is not supported", name)
}

// complete sets defaults for missing fields, and refuses requests that cannot be handled.
func complete(request any) error {
	m, ok := request.(proto.Message)
	if !ok {
		return nil
	}
	r := m.ProtoReflect()
	if _, ok := unknown(r.GetUnknown(), createTags); ok && r.Descriptor().Name() == "CreateInstanceRequest" {
		return status.Error(codes.Unimplemented, "tags of instances are not supported")
	}
	id := r.Descriptor().Fields().ByName("instanceId")
	if r.Descriptor().Name() == "CreateInstanceRequest" && id != nil && r.Get(id).String() == "" {
		r.Set(id, protoreflect.ValueOfString(uuid.NewString()))
	}
	return nil
}

func (s *Server) passStream(i int, work bool) grpc.StreamHandler {
	return func(_ any, stream grpc.ServerStream) error {
		h, err := s.hub(stream.Context())
		if err != nil {
			return err
		}
		if work {
			leave, err := h.connect()
			if err != nil {
				return err
			}
			defer leave()
			stream = tracedStream{stream, h}
		}
		return h.description.Streams[i].Handler(h.service, stream)
	}
}

// method answers a call that the engine does not implement. Its messages are known by their descriptions only.
type method struct {
	request, response protoreflect.FullName
	do                func(ctx context.Context, h *hub, request, response protoreflect.Message) error
}

var methods = map[string]*method{
	"QueryInstances": {"QueryInstancesRequest", "QueryInstancesResponse", queryInstances},
	"PurgeInstances": {"PurgeInstancesRequest", "PurgeInstancesResponse", purgeInstances},
	"RewindInstance": {"RewindInstanceRequest", "RewindInstanceResponse", rewindInstance},
	"CreateTaskHub":  {"CreateTaskHubRequest", "CreateTaskHubResponse", createTaskHub},
	"DeleteTaskHub":  {"DeleteTaskHubRequest", "DeleteTaskHubResponse", deleteTaskHub},
}

func (s *Server) answer(m *method) methodHandler {
	return func(_ any, ctx context.Context, dec func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
		request, err := protoregistry.GlobalTypes.FindMessageByName(m.request)
		if err != nil {
			return nil, status.Error(codes.Unimplemented, err.Error())
		}
		response, err := protoregistry.GlobalTypes.FindMessageByName(m.response)
		if err != nil {
			return nil, status.Error(codes.Unimplemented, err.Error())
		}
		in, out := request.New(), response.New()
		if err := dec(in.Interface()); err != nil {
			return nil, err
		}
		handle := func(ctx context.Context, _ any) (any, error) {
			h, err := s.hub(ctx)
			if err == nil {
				err = m.do(ctx, h, in, out)
			}
			return out.Interface(), err
		}
		if interceptor == nil {
			return handle(ctx, in.Interface())
		}
		return interceptor(ctx, in.Interface(), &grpc.UnaryServerInfo{FullMethod: "/TaskHubSidecarService/" + string(m.request)}, handle)
	}
}

func field(m protoreflect.Message, name protoreflect.Name) protoreflect.FieldDescriptor {
	return m.Descriptor().Fields().ByName(name)
}

func get(m protoreflect.Message, name protoreflect.Name) protoreflect.Value {
	return m.Get(field(m, name))
}

func wrapped(m protoreflect.Message, name protoreflect.Name) string {
	if v, ok := get(m, name).Message().Interface().(*wrapperspb.StringValue); ok {
		return v.GetValue()
	}
	return ""
}

// bounds reads the times and statuses of a query or of the filter of a purge.
func bounds(m protoreflect.Message, q *durable.Query) error {
	if m.Has(field(m, "createdTimeFrom")) {
		q.From = get(m, "createdTimeFrom").Message().Interface().(*timestamppb.Timestamp).AsTime()
	}
	if m.Has(field(m, "createdTimeTo")) {
		q.To = get(m, "createdTimeTo").Message().Interface().(*timestamppb.Timestamp).AsTime()
	}
	list := get(m, "runtimeStatus").List()
	for i := range list.Len() {
		d := field(m, "runtimeStatus").Enum().Values().ByNumber(list.Get(i).Enum())
		if d == nil {
			return status.Errorf(codes.InvalidArgument, "unknown status %d", list.Get(i).Enum())
		}
		q.Status = append(q.Status, strings.ReplaceAll(strings.TrimPrefix(string(d.Name()), "ORCHESTRATION_STATUS_"), "_", ""))
	}
	return nil
}

func queryInstances(ctx context.Context, h *hub, request, response protoreflect.Message) error {
	m := get(request, "query").Message()
	q := durable.Query{Prefix: wrapped(m, "instanceIdPrefix"), Continuation: wrapped(m, "continuationToken"), Payloads: get(m, "fetchInputsAndOutputs").Bool(),
		Top: int(get(m, "maxInstanceCount").Int())}
	if q.Top <= 0 || q.Top > 1000 {
		q.Top = 100
	}
	if err := bounds(m, &q); err != nil {
		return err
	}
	page, err := h.client.Query(ctx, q)
	if err != nil {
		return err
	}
	list := response.Mutable(field(response, "orchestrationState")).List()
	for _, i := range page.Instances {
		describeInstance(list.AppendMutable().Message(), i, q.Payloads)
	}
	if page.Continuation != "" {
		response.Set(field(response, "continuationToken"), protoreflect.ValueOfMessage(wrapperspb.String(page.Continuation).ProtoReflect()))
	}
	return nil
}

func describeInstance(m protoreflect.Message, i *durable.Instance, payloads bool) {
	set := func(name protoreflect.Name, v protoreflect.Value) { m.Set(field(m, name), v) }
	set("instanceId", protoreflect.ValueOfString(i.ID))
	set("name", protoreflect.ValueOfString(i.Name))
	if s, err := durable.ParseStatus(i.Status); err == nil {
		set("orchestrationStatus", protoreflect.ValueOfEnum(s.Number()))
	}
	set("createdTimestamp", protoreflect.ValueOfMessage(timestamppb.New(i.Created).ProtoReflect()))
	set("lastUpdatedTimestamp", protoreflect.ValueOfMessage(timestamppb.New(i.LastUpdated).ProtoReflect()))
	if i.FailureMessage != "" {
		details := backend.TaskFailureDetails{ErrorType: i.FailureType, ErrorMessage: i.FailureMessage}
		set("failureDetails", protoreflect.ValueOfMessage(details.ProtoReflect()))
	}
	if !payloads {
		return
	}
	for name, text := range map[protoreflect.Name]string{"input": i.Input, "output": i.Output, "customStatus": i.CustomStatus} {
		if text != "" {
			set(name, protoreflect.ValueOfMessage(wrapperspb.String(text).ProtoReflect()))
		}
	}
}

func purgeInstances(ctx context.Context, h *hub, request, response protoreflect.Message) error {
	n := 0
	var err error
	if request.Has(field(request, "purgeInstanceFilter")) {
		q := durable.Query{Top: 1000}
		if err := bounds(get(request, "purgeInstanceFilter").Message(), &q); err != nil {
			return err
		}
		n, err = h.client.PurgeAll(ctx, q)
	} else {
		n, err = h.client.PurgeTree(ctx, get(request, "instanceId").String(), get(request, "recursive").Bool())
		if errors.Is(err, durable.ErrInstanceNotFound) {
			err = nil // The protocol answers with the number.
		}
	}
	response.Set(field(response, "deletedInstanceCount"), protoreflect.ValueOfInt32(int32(n)))
	return err
}

func rewindInstance(ctx context.Context, h *hub, request, _ protoreflect.Message) error {
	return h.client.Rewind(ctx, get(request, "instanceId").String(), wrapped(request, "reason"))
}

// createTaskHub: the call's hub was made when it was opened.
func createTaskHub(ctx context.Context, h *hub, request, _ protoreflect.Message) error {
	if !get(request, "recreateIfExists").Bool() {
		return nil
	}
	return status.Error(codes.Unimplemented, "a hub cannot be made again under its name; delete it, and use another name")
}

// deleteTaskHub is refused: one call must not delete the work of all.
func deleteTaskHub(context.Context, *hub, protoreflect.Message, protoreflect.Message) error {
	return status.Error(codes.Unimplemented, "hubs are not deleted through this protocol")
}

// asStatus gives errors of the backend the codes that clients know.
func asStatus(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := status.FromError(err); ok {
		return err
	}
	text := sdkerr.Text(err)
	for target, code := range map[error]codes.Code{
		durable.ErrInstanceNotFound: codes.NotFound, durable.ErrInstanceExists: codes.AlreadyExists, durable.ErrNotCompleted: codes.FailedPrecondition,
		durable.ErrNotFailed: codes.FailedPrecondition, durable.ErrTooLarge: codes.InvalidArgument, durable.ErrBadInstanceID: codes.InvalidArgument,
		context.Canceled: codes.Canceled, context.DeadlineExceeded: codes.DeadlineExceeded,
	} {
		if errors.Is(err, target) {
			return status.Error(code, text)
		}
	}
	return status.Error(codes.Unknown, text)
}
