package workers

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/lazuli-storage/lazuli/internal/sdk/messages"
	"github.com/lazuli-storage/lazuli/workers/internal/queues"
	"github.com/lazuli-storage/lazuli/workers/internal/trigger"
)

// After keeps the message invisible for d, in whole seconds up to 7 days.
func After(d time.Duration) EnqueueOption { return func(s *enqueueSettings) { s.after = d } }

// TimeToLive sets the message's time to live; a negative duration means that it does not expire. Default 7 days.
func TimeToLive(d time.Duration) EnqueueOption { return func(s *enqueueSettings) { s.ttl = d } }

// EncodedAs sets the encoding of the body, which must be the receiver's WithMessageEncoding. Default Base64.
func EncodedAs(e Encoding) EnqueueOption { return func(s *enqueueSettings) { s.encoding = e } }

// Enqueue puts a message into a queue of the account of the function whose handler calls it; ctx is the handler's
// context. See Storage.Enqueue for the body. A function of the same app that listens to the queue on the same
// connection is called at once.
func Enqueue(ctx context.Context, queue string, body any, options ...EnqueueOption) error {
	b, ok := ctx.Value(boundKey{}).(bound)
	if !ok {
		return outside("Enqueue")
	}
	if err := b.storage.Enqueue(ctx, queue, body, options...); err != nil {
		return err
	}
	b.app.Wake(queue)
	return nil
}

// StorageOf returns the clients of the account of the function whose handler has the context ctx. It returns false for
// other contexts.
func StorageOf(ctx context.Context) (*Storage, bool) {
	b, ok := ctx.Value(boundKey{}).(bound)
	return b.storage, ok
}

// bound is the app and account of a handler's context.
type bound struct {
	app     *App
	storage *Storage
}

type boundKey struct{}

// bind returns the context of a handler, by which Enqueue, Upsert, Upload and StorageOf find its app and account.
func bind(ctx context.Context, a *App, s *Storage) context.Context {
	return context.WithValue(ctx, boundKey{}, bound{a, s})
}

// ErrNoHandler means that an output was called with a context that is not one of a handler. Handlers are the functions
// of all triggers, activities and operations of entities. An orchestrator is not: it runs again from its beginning at
// every step, and would write each time.
var ErrNoHandler = errors.New("workers: the context is not one of a handler")

// outside returns ErrNoHandler with what to do in place of the output of that name.
func outside(output string) error {
	return fmt.Errorf("%w: %s needs one; elsewhere use Storage.%[2]s. A workflow must leave it to an activity, since its "+
		"code runs again at every step and must be deterministic", ErrNoHandler, output)
}

// Enqueue puts a message into a queue, and creates the queue if it does not exist. A body of bytes or a string is put
// unchanged; other values are encoded as JSON. Calls for a queue at the same time share requests, where the service
// supports that: see docs/extensions.md.
//
// If ctx belongs to a trace (the context of a handler with the middleware of package otelfunc, or of WithTraceParent)
// and the body is a JSON object without the property traceparent, Enqueue adds that property, as in CloudEvents, since
// queue messages have no headers. The call that handles the message then belongs to the same trace.
func (s *Storage) Enqueue(ctx context.Context, queue string, body any, options ...EnqueueOption) error {
	settings := enqueueSettings{encoding: Base64, ttl: 7 * 24 * time.Hour}
	for _, o := range options {
		o(&settings)
	}
	if err := errors.Join(settings.validate(), settings.refuseJob()); err != nil {
		return fmt.Errorf("workers: enqueue: %w", err)
	}
	if s.Queues == nil {
		return errors.New("workers: enqueue: the connection string has no queue endpoint")
	}
	text, err := encoded(body)
	if err != nil {
		return fmt.Errorf("workers: enqueue: %w", err)
	}
	text = withTraceParent(text, TraceParent(ctx))
	written := string(text)
	if settings.encoding == Base64 {
		written = base64.StdEncoding.EncodeToString(text)
	}
	m := messages.New{Text: written, Delay: queues.WholeSeconds(settings.after), TTL: queues.WholeSeconds(settings.ttl)}
	p := s.putters.of(s.Queues, queue)
	_, err = p.Put(ctx, m)
	// The queue is created only when it is missing: asking before each message would double the requests.
	if errors.Is(queues.Failure(err), queues.ErrNoQueue) {
		if err := queues.New(s.Queues.NewQueueClient(queue)).Create(ctx); err != nil {
			return fmt.Errorf("workers: enqueue: create the queue %s: %w", queue, err)
		}
		_, err = p.Put(ctx, m)
	}
	if err != nil {
		return fmt.Errorf("workers: enqueue to %s: %w", queue, err)
	}
	return nil
}

// maxPutters is the number of queues at which all Putters are dropped: their calls under way go on.
const maxPutters = 1000

// putters has a Putter for each queue that was put into.
type putters struct {
	mu  sync.Mutex // guards all
	all map[string]*messages.Putter
}

// of returns the Putter of a queue.
func (p *putters) of(account *azqueue.ServiceClient, queue string) *messages.Putter {
	if p == nil {
		return messages.NewPutter(account.NewQueueClient(queue))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.all[queue] == nil {
		if p.all == nil || len(p.all) >= maxPutters {
			p.all = map[string]*messages.Putter{}
		}
		p.all[queue] = messages.NewPutter(account.NewQueueClient(queue))
	}
	return p.all[queue]
}

type traceKey struct{}

// WithTraceParent returns a context under which Enqueue sends messages of a trace. A value that is not a traceparent of
// version 00 is ignored.
func WithTraceParent(ctx context.Context, parent string) context.Context {
	if !trigger.TraceParent().MatchString(parent) {
		return ctx
	}
	return context.WithValue(ctx, traceKey{}, parent)
}

// TraceParent returns the traceparent (W3C Trace Context) of the messages that Enqueue sends under ctx; "" without a
// trace.
func TraceParent(ctx context.Context) string {
	parent, _ := ctx.Value(traceKey{}).(string)
	return parent
}

// withTraceParent adds the property traceparent to a body that is a JSON object without it.
func withTraceParent(body []byte, parent string) []byte {
	trimmed := bytes.TrimSpace(body)
	if parent == "" || len(trimmed) < 2 || trimmed[0] != '{' || !json.Valid(trimmed) ||
		bytes.Contains(trimmed, []byte(`"traceparent"`)) {
		return body
	}
	rest := bytes.TrimSpace(trimmed[1:])
	out := append(make([]byte, 0, len(body)+80), `{"traceparent":"`...)
	out = append(append(out, parent...), '"')
	if rest[0] != '}' {
		out = append(out, ',')
	}
	return append(out, rest...)
}

// encoded returns bytes and strings as they are and everything else as JSON.
func encoded(v any) ([]byte, error) {
	switch v := v.(type) {
	case []byte:
		return bytes.Clone(v), nil
	case string:
		return []byte(v), nil
	}
	return json.Marshal(v)
}
