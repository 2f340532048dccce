package sidecar_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/microsoft/durabletask-go/api"
	"github.com/microsoft/durabletask-go/backend"
	"github.com/microsoft/durabletask-go/client"
	"github.com/microsoft/durabletask-go/task"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/lazuli-storage/lazuli/internal/durable/sidecar"
)

// withField sets a field of the requests that newer versions of the protocol have.
func withField(method string, number protowire.Number, content []byte) grpc.UnaryClientInterceptor {
	return withFields(method, bytesField(number, content))
}

func withFields(method string, fields []byte) grpc.UnaryClientInterceptor {
	return func(ctx context.Context, name string, request, answer any, conn *grpc.ClientConn, next grpc.UnaryInvoker,
		o ...grpc.CallOption) error {
		if strings.HasSuffix(name, "/"+method) {
			r := request.(proto.Message).ProtoReflect()
			r.SetUnknown(append(r.GetUnknown(), fields...))
		}
		return next(ctx, name, request, answer, conn, o...)
	}
}

func bytesField(number protowire.Number, content []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), content)
}

// What the server cannot do is refused, and says why.
func TestBadCallsAreRefused(t *testing.T) {
	t.Parallel()
	long := bytesField(8, append(bytesField(1, []byte("k")), bytesField(2, []byte(strings.Repeat("x", 10_000)))...))
	conn := dial(t, sidecar.Options{}, grpc.WithChainUnaryInterceptor(withFields("StartInstance", long)))
	for method, says := range map[string]string{
		"SignalEntity": "@name@key", "GetEntity": "@name@key", "RestartInstance": "it is empty",
		"RaiseEvent":                "has no name",
		"PurgeInstances":            "names no instances",
		"AbandonTaskEntityWorkItem": "not at this worker", "BeginWorkerDrain": "not supported",
	} {
		err := conn.Invoke(t.Context(), "/TaskHubSidecarService/"+method, &emptypb.Empty{}, &emptypb.Empty{})
		if c := status.Code(err); c == codes.OK || c == codes.Unknown || c == codes.Internal ||
			!strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", method, err)
		}
	}
	c := client.NewTaskHubGrpcClient(conn, backend.DefaultLogger())
	if _, err := c.ScheduleNewOrchestration(t.Context(), "hello"); status.Code(err) != codes.InvalidArgument ||
		!strings.Contains(err.Error(), "tags") {
		t.Errorf("a start with 10,000 bytes of tags: %v", err)
	}
	if err := c.RaiseEvent(t.Context(), "@counter@a", "op"); status.Code(err) != codes.InvalidArgument ||
		!strings.Contains(err.Error(), "entity") {
		t.Errorf("an event for an entity: %v", err)
	}
}

// workStream notes the trace contexts of the activities that a worker receives.
type workStream struct {
	grpc.ClientStream
	traces chan string
}

// RecvMsg implements grpc.ClientStream.
func (s workStream) RecvMsg(message any) error {
	err := s.ClientStream.RecvMsg(message)
	if m, ok := message.(proto.Message); err == nil && ok {
		r := m.ProtoReflect()
		if f := r.Descriptor().Fields().ByName("activityRequest"); f != nil && r.Has(f) {
			s.traces <- string(r.Get(f).Message().GetUnknown())
		}
	}
	return err
}

// A trace that an SDK has begun reaches the workers that run its activities; the server needs no exporter for that.
func TestTraceReachesActivities(t *testing.T) {
	t.Parallel()
	const id = "0af7651916cd43dd8448eb211c80319c"
	traces := make(chan string, 1)
	conn := dial(t, sidecar.Options{},
		grpc.WithChainUnaryInterceptor(withField("StartInstance", 9, bytesField(1,
			[]byte("00-"+id+"-b7ad6b7169203331-01")))),
		grpc.WithChainStreamInterceptor(
			func(ctx context.Context, d *grpc.StreamDesc, conn *grpc.ClientConn, method string, next grpc.Streamer,
				o ...grpc.CallOption) (grpc.ClientStream, error) {
				stream, err := next(ctx, d, conn, method, o...)
				return workStream{stream, traces}, err
			}))
	c := client.NewTaskHubGrpcClient(conn, backend.DefaultLogger())
	r := hello("here")
	_ = r.AddOrchestratorN("calls",
		func(ctx *task.OrchestrationContext) (any, error) { return nil, ctx.CallActivity("nothing").Await(nil) })
	_ = r.AddActivityN("nothing", func(task.ActivityContext) (any, error) { return nil, nil })
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := c.StartWorkItemListener(ctx, r); err != nil {
		t.Fatal(err)
	}
	instance, err := c.ScheduleNewOrchestration(ctx, "calls")
	if err != nil {
		t.Fatal(err)
	}
	if m, err := c.WaitForOrchestrationCompletion(ctx, instance); err != nil ||
		m.RuntimeStatus != api.RUNTIME_STATUS_COMPLETED {
		t.Fatalf("%+v, %v", m, err)
	}
	if got := <-traces; !strings.Contains(got, "00-"+id) {
		t.Errorf("the activity's trace context is %q, want the trace %s", got, id)
	}
}
