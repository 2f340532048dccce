package functions

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/lazuli-storage/lazuli/internal/durable/call"
	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/sdk/sdkerr"
	"github.com/lazuli-storage/lazuli/workers"
)

// invocation is one call of a function.
type invocation struct {
	id       string
	function *function
	reason   string
	began    time.Time
	data     bindingData
	// trigger is the trigger's value for Data.
	trigger any
	// returned is the ReturnValue of the answer.
	returned Value
	retry    *RetryContext
	// forward passes the HTTP request of an HTTP trigger on to an address, and the response back; nil for other triggers.
	forward func(ctx context.Context, address string, returned <-chan error) error
	// gone is closed when the client of an HTTP trigger has disconnected; nil for other triggers.
	gone <-chan struct{}
	// forwarded: there was a response to pass back; broken: it ended too early.
	forwarded, broken bool
	// bytes: what is no text is passed as bytes, not as text with replacement characters.
	bytes bool
	trace workers.TraceContext
	about string // the message or workflow instance that it is about
	log   *slog.Logger
	// kept is for Status, which must not hold what the invocation was called with.
	kept *invocationPast
}

// maxBody is the maximum length of a blob, a request's body and a response that are kept in memory.
const maxBody = 256 << 20

// HostVersion is the version of the Functions host whose protocol this is, for handlers that check it.
const HostVersion = "4.1036.0"

// The moments between an invocation's effects.
var (
	pointAnswered = fault.Declare("functions/after-answer")
	pointWritten  = fault.Declare("functions/after-outputs")
)

func (h *Host) newInvocation(ctx context.Context, f *function, reason string) *invocation {
	inv := &invocation{id: uuid.NewString(), function: f, reason: reason, began: time.Now(),
		bytes: h.project.worker != nil, kept: &invocationPast{}}
	if ic, ok := workers.FromContext(ctx); ok {
		inv.id, inv.trace = ic.InvocationID, ic.TraceContext
		if ic.TriggerType == "queueTrigger" {
			inv.about = ic.TriggerMetadata["Id"]
		} else if c, ok := call.Of(ctx); ok {
			inv.about = c.Instance
		}
		// A span that middleware has begun is the parent of what the function does, and not the span of the message.
		if parent := workers.TraceParent(ctx); parent != "" {
			inv.trace.TraceParent = parent
		}
	}
	inv.log = slog.New(keeper{h.config.Logger.Handler().WithAttrs([]slog.Attr{slog.String("function", f.name),
		slog.String("invocation_id", inv.id)}), inv.kept})
	return inv
}

// traceOf takes the trace that a request belongs to.
func (inv *invocation) traceOf(r *http.Request) {
	inv.trace = workers.TraceContext{TraceParent: r.Header.Get("Traceparent"), TraceState: r.Header.Get("Tracestate")}
}

// stateKey is the entry of a tracestate that names an invocation, and behind a slash its message or workflow instance.
const stateKey = "lazuli="

// beginTrace begins a trace if the invocation belongs to none, as the host of Azure does: handlers and workers send it
// with their requests, by which these are found. Its ID is that of the invocation. The flags say that it is not
// recorded: middleware that records has begun a trace by now. An entry of the tracestate names the invocation, which is
// not in the trace of a message. The tracestate of the caller of an HTTP function stays as it was sent, since functions
// read it: the workers of Node.js and Python add the entry to what they send.
// https://www.w3.org/TR/trace-context/
func (inv *invocation) beginTrace() {
	id, err := uuid.Parse(inv.id)
	if inv.trace.TraceParent == "" && err == nil {
		inv.trace.TraceParent = fmt.Sprintf("00-%x-%x-00", id[:], id[:8])
	}
	if strings.Contains(inv.trace.TraceState, stateKey+inv.id) || inv.trace.TraceState != "" && inv.about == "" {
		return // an earlier attempt, or a caller's
	}
	entry := stateKey + inv.id
	if whole := entry + "/" + inv.about; inv.about != "" && len(whole) <= 256 && stateText(inv.about) {
		entry = whole
	}
	list := []string{entry}
	for other := range strings.SplitSeq(inv.trace.TraceState, ",") {
		// A list has up to 32 entries, and each key once.
		if other = strings.TrimSpace(other); other != "" && !strings.HasPrefix(other, stateKey) && len(list) < 32 {
			list = append(list, other)
		}
	}
	inv.trace.TraceState = strings.Join(list, ",")
}

// stateText reports whether a text can be in the value of an entry of a tracestate.
func stateText(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == ',' || r == '=' })
}

// wrap does what package workers does for its own triggers: it puts the middleware around an invocation.
func (h *Host) wrap(ctx context.Context, inv *invocation, do func(context.Context) error) error {
	handler := workers.Handler(func(ctx context.Context, _ *workers.MiddlewareContext) error {
		if parent := workers.TraceParent(ctx); parent != "" {
			inv.trace.TraceParent = parent
		}
		inv.beginTrace()
		return do(ctx)
	})
	// Backward, so that the first in the list is the outermost, as for the triggers of package workers.
	for _, m := range slices.Backward(h.config.Middleware) {
		handler = m.Wrap(handler)
	}
	ic := &workers.InvocationContext{
		InvocationID: inv.id, FunctionID: h.project.hostID() + "/" + inv.function.name, FunctionName: inv.function.name,
		TriggerType: inv.function.trigger.kind, TraceContext: inv.trace, TriggerMetadata: map[string]string{},
	}
	return handler(workers.NewContext(ctx, ic), &workers.MiddlewareContext{InvocationContext: ic})
}

// call runs an invocation, by the function's retry policy if it has one, and logs its beginning and end as the Core
// Tools do.
//
// The result is the response of an HTTP trigger, nil for other triggers.
func (h *Host) call(ctx context.Context, inv *invocation) (*httpResult, error) {
	f := inv.function
	inv.beginTrace()
	h.logExecuting(ctx, inv)
	var r *httpResult
	var err error
	for attempt := 1; ; attempt++ {
		if f.retry != nil {
			inv.retry = &RetryContext{RetryCount: attempt - 1, MaxRetryCount: f.retry.max}
			if err != nil {
				inv.retry.Exception = err.Error()
			}
		}
		r, err = h.attempt(ctx, inv)
		// A request that is passed on is not attempted again: its body was read, and the response may have begun.
		if err == nil || ctx.Err() != nil || f.retry == nil || inv.forward != nil || f.retry.max >= 0 &&
			attempt > f.retry.max {
			break
		}
		delay := f.retry.delay(attempt)
		h.logAt(ctx, inv, slog.LevelWarn, "Failed; trying again", "attempt", attempt, "after", delay, "err",
			sdkerr.Short(err))
		if !h.waitToRetry(ctx, delay) {
			// The run is not over: a timer that is monitored stays due, and happens after the next start.
			err = errors.Join(workers.ErrStopping, err)
			break
		}
	}
	if err != nil {
		h.logExecuted(ctx, inv, sdkerr.Short(err))
		return nil, workers.Logged(err)
	}
	h.logExecuted(ctx, inv, nil)
	return r, nil
}

// waitToRetry waits for the time between two attempts, and reports whether there is to be another one: not if the host
// stops, which is not to wait for an attempt that may be hours away.
func (h *Host) waitToRetry(ctx context.Context, delay time.Duration) bool {
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
	case <-h.stopping.Done():
	}
	return false
}

// logExecuting and logExecuted log the lines of the Functions host about an invocation, which tools look for.
func (h *Host) logExecuting(ctx context.Context, inv *invocation) {
	h.past.begin(inv)
	h.logAt(ctx, inv, slog.LevelInfo,
		fmt.Sprintf("Executing 'Functions.%s' (Reason='%s', Id=%s)", inv.function.name, inv.reason, inv.id))
}

func (h *Host) logExecuted(ctx context.Context, inv *invocation, err error, attrs ...any) {
	level, result := slog.LevelInfo, "Succeeded"
	if err != nil {
		level, result, attrs = slog.LevelError, "Failed", append(attrs, "err", err)
	}
	h.logAt(ctx, inv, level, fmt.Sprintf("Executed 'Functions.%s' (%s, Id=%s, Duration=%dms)", inv.function.name, result,
		inv.id, time.Since(inv.began).Milliseconds()), attrs...)
	h.past.end(inv, err)
}

// logAt logs of an invocation if host.json wants it.
func (h *Host) logAt(ctx context.Context, inv *invocation, level slog.Level, message string, attrs ...any) {
	if h.project.host.levels.enabled("Function."+inv.function.name, level) {
		inv.log.Log(ctx, level, message, attrs...)
	}
}

// attempt calls the handler once and writes its response to the output bindings, except the HTTP response.
func (h *Host) attempt(ctx context.Context, inv *invocation) (*httpResult, error) {
	ctx, cancel := h.limit(ctx)
	defer cancel()
	// Inputs are read again in each attempt: an earlier one may have changed what they come from.
	inputs := map[string]any{inv.function.trigger.name: inv.trigger}
	for _, b := range inv.function.in {
		value, err := h.read(ctx, inv, b)
		if err != nil {
			return nil, fmt.Errorf("input %s: %w", b.name, err)
		}
		inputs[b.name] = value
	}
	// languageInvoker.invoke, or handlerInvoker.invoke for a custom handler.
	answer, err := h.invoker.invoke(ctx, inv, inputs)
	if err != nil {
		return nil, err
	}
	if h.project.host.levels.enabled("Function."+inv.function.name+".User", slog.LevelInfo) {
		for _, line := range answer.logs {
			inv.log.InfoContext(ctx, line)
		}
	}
	inv.returned = answer.returned
	// The answer is read as a whole before the first output is written, so that one that cannot be read has no effects.
	var result *httpResult
	if inv.function.trigger.kind == kindHTTPTrigger && !answer.forwarded {
		if result, err = answer.http(inv.function); err != nil {
			return nil, err
		}
	}
	if err := fault.Point(pointAnswered); err != nil {
		return nil, err
	}
	for _, b := range inv.function.out {
		value := answer.output(inv.function, b)
		// The response goes out last, when the outputs are written: a client must not see a success whose effects are
		// missing.
		if b.kind == kindHTTP || !value.present() {
			continue
		}
		if err := h.write(ctx, inv, b, value); err != nil {
			return nil, fmt.Errorf("output %s: %w", b.name, err)
		}
	}
	return result, fault.Point(pointWritten)
}

// handlerInvoker calls functions in the web server of a custom handler.
type handlerInvoker struct{ *Host }

func (h handlerInvoker) run(ctx context.Context) error { return h.keep(ctx) }

// invoke posts an invocation to the handler. One that could not be sent is sent again as soon as there is a handler.
func (h handlerInvoker) invoke(ctx context.Context, inv *invocation, inputs map[string]any) (*response, error) {
	body, err := marshal(newPayload(inv, inputs))
	if err != nil {
		return nil, err
	}
	// Only what was certainly not sent is sent again. In other cases the function may have run, and whether it runs
	// again is for the trigger to decide.
	for {
		url, err := h.process.await(ctx)
		if err != nil {
			return nil, err
		}
		answer, err := h.post(ctx, inv, url, body)
		if err != nil && errors.Is(context.Cause(ctx), workers.ErrTimeout) {
			h.process.replace(url) // As the Functions host does: the handler may be stuck.
		}
		if err == nil || ctx.Err() != nil || !h.broken(url, err) {
			return answer, err
		}
	}
}

// broken has the handler looked at if an error is one of the connection, and reports whether nothing was sent.
func (h *Host) broken(url string, err error) (unsent bool) {
	var answered *FunctionError
	if errors.As(err, &answered) {
		return false
	}
	h.process.markSuspect(url)
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

func (h *Host) post(ctx context.Context, inv *invocation, url string, body []byte) (*response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/"+inv.function.name, bytes.NewReader(body))
	if err != nil {
		return nil, &FunctionError{err}
	}
	r.Header.Set("Content-Type", "application/json; charset=utf-8")
	inv.mark(r.Header)
	got, err := h.client.Do(r)
	if err != nil {
		// The cause says whether it was the time limit or a stop, which the error of the client does not.
		if cause := context.Cause(ctx); cause != nil {
			err = errors.Join(cause, err)
		}
		if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) {
			return nil, fmt.Errorf("the handler closed the connection without an answer to %s; it may have failed, see its "+
				"lines in the log above (%w)", inv.function.name, err)
		}
		return nil, fmt.Errorf("ask the handler: %w", err)
	}
	defer got.Body.Close()
	text, err := readBounded(got.Body)
	if err != nil {
		return nil, fmt.Errorf("read the handler's answer: %w", err)
	}
	answer, err := parseResponse(got.StatusCode, got.Header, text)
	if err != nil {
		return nil, &FunctionError{err}
	}
	return answer, nil
}

// mark adds the headers by which a handler knows the invocation.
func (inv *invocation) mark(h http.Header) {
	h.Set("X-Azure-Functions-InvocationId", inv.id)
	h.Set("X-Azure-Functions-HostVersion", HostVersion)
	if inv.trace.TraceParent != "" {
		h.Set("Traceparent", inv.trace.TraceParent)
		if inv.trace.TraceState != "" {
			h.Set("Tracestate", inv.trace.TraceState)
		}
	}
	agent := "Azure-Functions-Host/" + HostVersion
	if theirs := h.Get("User-Agent"); theirs != "" {
		agent = theirs + " " + agent
	}
	h.Set("User-Agent", agent)
}

var errTooLarge = fmt.Errorf("it has more than %d MiB", maxBody>>20)

// readBounded reads all of a body of at most maxBody bytes.
func readBounded(r io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxBody+1))
	if err == nil && len(text) > maxBody {
		err = errTooLarge
	}
	return text, err
}

// addInput makes a trigger's text the value for Data, and its members known to expressions if it is a JSON object.
func (inv *invocation) addInput(text []byte, binary bool) {
	if binary || inv.bytes && !utf8.Valid(text) {
		inv.trigger = text
		return
	}
	s := string(bytes.ToValidUTF8(bytes.TrimPrefix(text, []byte("\xef\xbb\xbf")), []byte("\ufffd")))
	inv.trigger = s
	inv.data.addPayload(s)
}
