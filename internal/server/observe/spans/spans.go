// Package spans makes OpenTelemetry spans of what the services answer: the same that the page of a trace shows.
//
// A request is a span if its client sent a traceparent, which is then the parent, or if it put, received or deleted
// messages. A request for a message that was put here has a link to the span of that request, whose children are the
// times in which the message waited and was handled.
package spans

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/lazuli-storage/lazuli/internal/azure/frontend"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// maxMessages bounds the messages whose spans are remembered; of more, the oldest are forgotten.
const maxMessages = 10_000

// message is a message that was put, and what has happened to it since.
type message struct {
	id      [16]byte
	put     trace.SpanContext
	since   time.Time
	attempt int // 0 while it waits
}

// Spans makes spans. It is safe for concurrent use.
type Spans struct {
	tracer trace.Tracer

	mu       sync.Mutex // guards the rest
	messages map[[16]byte]*message
	order    []*message // by the time at which they were put, with those that were deleted since
}

// New makes spans with a provider.
func New(p trace.TracerProvider) *Spans {
	return &Spans{tracer: p.Tracer("github.com/lazuli-storage/lazuli/server"), messages: map[[16]byte]*message{}}
}

// Observe takes a request that was answered. It is for [frontend.Common.Observe].
func (s *Spans) Observe(r *wire.Request, o frontend.Outcome) {
	parent := parentOf(r.HTTP.Header)
	touched := r.Touched()
	if r.System() || !parent.IsValid() && len(touched) == 0 {
		return
	}
	end := time.Now()
	name := r.Operation
	if name == "" {
		name = r.HTTP.Method
	}
	ctx := trace.ContextWithRemoteSpanContext(context.Background(), parent)
	_, span := s.tracer.Start(ctx, name, trace.WithTimestamp(end.Add(-o.Duration)),
		trace.WithSpanKind(trace.SpanKindServer), trace.WithLinks(s.links(touched)...),
		trace.WithAttributes(attributesOf(r, o)...))
	if o.Status == 0 || o.Status >= http.StatusInternalServerError {
		span.SetStatus(codes.Error, http.StatusText(o.Status))
	}
	span.End(trace.WithTimestamp(end))
	s.follow(touched, span.SpanContext(), end)
}

// parentOf returns the span that the client sent the request in. A host of functions that records no traces begins one
// for each invocation, which is marked as not recorded: what the services do for it is recorded all the same.
func parentOf(h http.Header) trace.SpanContext {
	ctx := propagation.TraceContext{}.Extract(context.Background(), propagation.HeaderCarrier(h))
	c := trace.SpanContextFromContext(ctx)
	invocation, _, _ := strings.Cut(c.TraceState().Get("lazuli"), "/")
	if id, err := uuid.Parse(invocation); err == nil && trace.TraceID(id) == c.TraceID() {
		c = c.WithTraceFlags(c.TraceFlags().WithSampled(true))
	}
	return c
}

// attributesOf are those of https://opentelemetry.io/docs/specs/semconv/ for HTTP, Azure and messaging.
func attributesOf(r *wire.Request, o frontend.Outcome) []attribute.KeyValue {
	list := []attribute.KeyValue{attribute.String("http.request.method", r.HTTP.Method),
		attribute.String("url.path", r.URIPath), attribute.Int("http.response.status_code", o.Status),
		attribute.String("azure.service.request.id", r.ID), attribute.String("lazuli.account", r.Account)}
	if r.ClientID != "" {
		list = append(list, attribute.String("azure.client.request.id", r.ClientID))
	}
	if r.Failure != nil {
		list = append(list, attribute.String("error.type", r.Failure.Code))
	}
	if touched := r.Touched(); len(touched) > 0 {
		list = append(list, attribute.String("messaging.system", "azure_storage_queue"),
			attribute.Int("messaging.batch.message_count", len(touched)))
		if len(touched) == 1 {
			list = append(list, messageID(touched[0].ID))
		}
	}
	return list
}

func messageID(id [16]byte) attribute.KeyValue {
	return attribute.String("messaging.message.id", uuid.UUID(id).String())
}

// links are those to the requests that put the messages.
func (s *Spans) links(touched []wire.Touch) (list []trace.Link) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range touched {
		if m := s.messages[t.ID]; m != nil {
			list = append(list, trace.Link{SpanContext: m.put, Attributes: []attribute.KeyValue{messageID(t.ID)}})
		}
	}
	return list
}

// follow notes what a request did to messages, and makes the spans of the times that have ended by it.
func (s *Spans) follow(touched []wire.Touch, span trace.SpanContext, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range touched {
		m := s.messages[t.ID]
		switch {
		case t.Kind == wire.MessagePut:
			s.remember(&message{id: t.ID, put: span, since: now})
		case m == nil || t.Kind == wire.MessageUpdated:
		case t.Kind == wire.MessageReceived:
			s.passed(m, now)
			m.since, m.attempt = now, max(1, t.Attempts)
		case t.Kind == wire.MessageDeleted:
			s.passed(m, now)
			delete(s.messages, t.ID)
		}
	}
}

// remember keeps a message. s.mu is held.
func (s *Spans) remember(m *message) {
	for len(s.order) >= maxMessages {
		if oldest := s.order[0]; s.messages[oldest.id] == oldest {
			delete(s.messages, oldest.id)
		}
		s.order = s.order[1:]
	}
	s.messages[m.id], s.order = m, append(s.order, m)
}

// passed makes the span of the time in which a message waited, or a worker had it. s.mu is held.
func (s *Spans) passed(m *message, now time.Time) {
	name, list := "waits", []attribute.KeyValue{messageID(m.id)}
	if m.attempt > 0 {
		name, list = "is handled", append(list, attribute.Int("lazuli.attempt", m.attempt))
	}
	_, span := s.tracer.Start(trace.ContextWithRemoteSpanContext(context.Background(), m.put), name,
		trace.WithTimestamp(m.since), trace.WithAttributes(list...))
	span.End(trace.WithTimestamp(now))
}
