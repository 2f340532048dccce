package sidecar

import (
	"context"

	"go.opentelemetry.io/otel/propagation"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Trace contexts in newer versions of the protocol than the engine's. The fields have these numbers; TraceContext has traceParent (1) and
// traceState (3), which is a StringValue.
// https://github.com/microsoft/durabletask-protobuf
const (
	createTags         protowire.Number = 8 // of CreateInstanceRequest
	createTraceContext protowire.Number = 9 // of CreateInstanceRequest
	activityTrace      protowire.Number = 6 // of ActivityRequest

	traceParent protowire.Number = 1
	traceState  protowire.Number = 3
	stringValue protowire.Number = 1
)

// unknown returns the content of a field that the message's version of the protocol does not have, and whether it is set.
func unknown(fields []byte, wanted protowire.Number) (content []byte, ok bool) {
	for len(fields) > 0 {
		number, kind, n := protowire.ConsumeTag(fields)
		if n < 0 {
			return content, ok
		}
		size := protowire.ConsumeFieldValue(number, kind, fields[n:])
		if size < 0 {
			return content, ok
		}
		if number == wanted && kind == protowire.BytesType {
			content, _ = protowire.ConsumeBytes(fields[n:])
			ok = true
		}
		fields = fields[n+size:]
	}
	return content, ok
}

// w3c reads and writes trace contexts. https://www.w3.org/TR/trace-context/
var w3c propagation.TraceContext

// traced returns a context with the trace that a client has sent: in the request that starts an instance, or in the call's metadata.
func traced(ctx context.Context, request any) context.Context {
	carrier := propagation.MapCarrier{}
	md, _ := metadata.FromIncomingContext(ctx)
	for _, key := range w3c.Fields() {
		if v := md.Get(key); len(v) > 0 {
			carrier[key] = v[0]
		}
	}
	if m, ok := request.(proto.Message); ok && m.ProtoReflect().Descriptor().Name() == "CreateInstanceRequest" {
		if content, ok := unknown(m.ProtoReflect().GetUnknown(), createTraceContext); ok {
			parent, _ := unknown(content, traceParent)
			state, _ := unknown(content, traceState)
			text, _ := unknown(state, stringValue)
			carrier = propagation.MapCarrier{"traceparent": string(parent), "tracestate": string(text)}
		}
	}
	return w3c.Extract(ctx, carrier)
}

// tracedStream adds to the activities that a worker fetches the trace that they belong to.
type tracedStream struct {
	grpc.ServerStream
	hub *hub
}

// SendMsg implements grpc.ServerStream.
func (s tracedStream) SendMsg(message any) error {
	if m, ok := message.(proto.Message); ok {
		s.trace(m.ProtoReflect())
	}
	return s.ServerStream.SendMsg(message)
}

func (s tracedStream) trace(item protoreflect.Message) {
	f := field(item, "activityRequest")
	if f == nil || !item.Has(f) {
		return
	}
	request := item.Mutable(f).Message()
	instance := get(get(request, "orchestrationInstance").Message(), "instanceId").String()
	parent, state := s.hub.backend.ActivityTrace(instance, int32(get(request, "taskId").Int()))
	if parent == "" {
		return
	}
	var content []byte
	content = protowire.AppendString(protowire.AppendTag(content, traceParent, protowire.BytesType), parent)
	if state != "" {
		value := protowire.AppendString(protowire.AppendTag(nil, stringValue, protowire.BytesType), state)
		content = protowire.AppendBytes(protowire.AppendTag(content, traceState, protowire.BytesType), value)
	}
	request.SetUnknown(protowire.AppendBytes(protowire.AppendTag(nil, activityTrace, protowire.BytesType), content))
}
