package sidecar

import (
	"context"
	"errors"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/lazuli-storage/lazuli/internal/durable/protocol"
	"github.com/lazuli-storage/lazuli/internal/durable/record"
	"github.com/lazuli-storage/lazuli/internal/sdk/sdkerr"
)

const serviceName = "TaskHubSidecarService"

// describe returns the protocol's service: every call of it, by the names that the protocol has.
func (s *Server) describe() *grpc.ServiceDesc {
	// By hand and not generated: SDKs name services and calls that the generated code of the Go module does not have.
	return &grpc.ServiceDesc{ServiceName: serviceName, HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{
		call(s, "Hello", func(context.Context, *openHub, *emptypb.Empty) (*emptypb.Empty, error) {
			return &emptypb.Empty{},
				nil
		}),
		call(s, "StartInstance", startInstance),
		call(s, "GetInstance", getInstance),
		call(s, "WaitForInstanceStart", waitForInstanceStart),
		call(s, "WaitForInstanceCompletion", waitForInstanceCompletion),
		call(s, "RaiseEvent", raiseEvent),
		call(s, "TerminateInstance", terminateInstance),
		call(s, "SuspendInstance", suspendInstance),
		call(s, "ResumeInstance", resumeInstance),
		call(s, "RestartInstance", restartInstance),
		call(s, "RewindInstance", rewindInstance),
		call(s, "QueryInstances", queryInstances),
		call(s, "ListInstanceIds", listInstanceIDs),
		call(s, "PurgeInstances", purgeInstances),
		call(s, "SkipGracefulOrchestrationTerminations", skipGracefulTerminations),
		call(s, "CompleteActivityTask", completeActivityTask),
		call(s, "CompleteOrchestratorTask", completeOrchestratorTask),
		call(s, "CompleteEntityTask", completeEntityTask),
		call(s, "AbandonTaskActivityWorkItem", abandonActivity),
		call(s, "AbandonTaskOrchestratorWorkItem", abandonOrchestrator),
		call(s, "AbandonTaskEntityWorkItem", abandonEntity),
		call(s, "SignalEntity", signalEntity),
		call(s, "GetEntity", getEntity),
		call(s, "QueryEntities", queryEntities),
		call(s, "CleanEntityStorage", cleanEntityStorage),
		call(s, "CreateTaskHub", s.createTaskHub),
		call(s, "DeleteTaskHub", s.deleteTaskHub),
	}, Streams: []grpc.StreamDesc{
		streamed(s, "GetWorkItems", s.getWorkItems),
		streamed(s, "StreamInstanceHistory", streamInstanceHistory),
	}}
}

// call describes a call that is answered for its hub.
func call[Q, A any, PQ interface {
	*Q
	proto.Message
}](s *Server, name string, do func(context.Context, *openHub, PQ) (A, error)) grpc.MethodDesc {
	return grpc.MethodDesc{MethodName: name,
		Handler: func(_ any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor) (any,
			error) {
			request := PQ(new(Q))
			if err := decode(request); err != nil {
				return nil, err
			}
			// A timestamp beyond year 9999 would fail later, in the middle of a write.
			if err := checkTimes(request.ProtoReflect()); err != nil {
				return nil, err
			}
			handle := func(ctx context.Context, _ any) (any, error) {
				h, err := s.hub(ctx)
				if err != nil {
					return nil, err
				}
				return do(ctx, h, request)
			}
			if interceptor == nil {
				return handle(ctx, request)
			}
			return interceptor(ctx, request, &grpc.UnaryServerInfo{FullMethod: "/" + serviceName + "/" + name}, handle)
		}}
}

// checkTimes returns an error if a request has a time that cannot be. All requests are checked here, so that no call
// passes such a time on. What absent and empty fields mean is in presence_test.go.
func checkTimes(m protoreflect.Message) (err error) {
	if t, ok := m.Interface().(*timestamppb.Timestamp); ok {
		return t.CheckValid()
	}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if f.Message() == nil || f.IsList() || f.IsMap() {
			return true
		}
		if err = checkTimes(v.Message()); err != nil {
			if _, named := status.FromError(err); !named {
				err = status.Errorf(codes.InvalidArgument, "%s: %v", f.Name(), err)
			}
		}
		return err == nil
	})
	return err
}

// streamed describes a call with a stream of answers.
func streamed[Q any, PQ interface {
	*Q
	proto.Message
}](s *Server, name string, do func(PQ, *openHub, grpc.ServerStream) error) grpc.StreamDesc {
	return grpc.StreamDesc{StreamName: name, ServerStreams: true, Handler: func(_ any, stream grpc.ServerStream) error {
		request := PQ(new(Q))
		if err := stream.RecvMsg(request); err != nil {
			return err
		}
		h, err := s.hub(stream.Context())
		if err != nil {
			return err
		}
		return do(request, h, stream)
	}}
}

// refuseUnknown answers the calls of newer versions of the protocol.
func refuseUnknown(_ any, stream grpc.ServerStream) error {
	name, _ := grpc.MethodFromServerStream(stream)
	return status.Errorf(codes.Unimplemented, "the call %s is not supported", name)
}

// createTaskHub makes the call's hub; with recreateIfExists it deletes what the hub has.
func (s *Server) createTaskHub(ctx context.Context, h *openHub,
	r *protocol.CreateTaskHubRequest) (*protocol.CreateTaskHubResponse, error) {
	if r.RecreateIfExists {
		if err := s.removeHub(ctx, h); err != nil {
			return nil, err
		}
		if _, err := s.hub(ctx); err != nil {
			return nil, err
		}
	}
	return &protocol.CreateTaskHubResponse{}, nil
}

// deleteTaskHub deletes the call's hub with all that is in it. Workers that are connected to it are disconnected.
func (s *Server) deleteTaskHub(ctx context.Context, h *openHub,
	_ *protocol.DeleteTaskHubRequest) (*protocol.DeleteTaskHubResponse, error) {
	return &protocol.DeleteTaskHubResponse{}, s.removeHub(ctx, h)
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
		record.ErrInstanceNotFound: codes.NotFound, record.ErrInstanceExists: codes.AlreadyExists,
		record.ErrNotCompleted: codes.FailedPrecondition, record.ErrForeignHub: codes.FailedPrecondition,
		record.ErrNotFailed: codes.FailedPrecondition, record.ErrTooLarge: codes.InvalidArgument,
		record.ErrBadInstanceID: codes.InvalidArgument,
		record.ErrBadRequest:    codes.InvalidArgument,
		context.Canceled:        codes.Canceled, context.DeadlineExceeded: codes.DeadlineExceeded,
	} {
		if errors.Is(err, target) {
			return status.Error(code, text)
		}
	}
	return status.Error(codes.Unknown, text)
}
