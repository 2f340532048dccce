package functions

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"syscall"

	"github.com/lazuli-storage/lazuli/functions/internal/jsonvalue"
	"github.com/lazuli-storage/lazuli/workers"
)

// handlerInvoker calls functions in the web server of a custom handler.
type handlerInvoker struct{ *Host }

func (h handlerInvoker) run(ctx context.Context) error { return h.keep(ctx) }

// invoke posts an invocation to the handler. One that could not be sent is sent again as soon as there is a handler.
func (h handlerInvoker) invoke(ctx context.Context, inv *invocation, inputs map[string]any) (*response, error) {
	body, err := jsonvalue.Marshal(newPayload(inv, inputs))
	if err != nil {
		return nil, err
	}
	// Only what was certainly not sent is sent again. In other cases the function may have run, and whether it runs
	// again is for the trigger to decide.
	for {
		url, err := h.process.Await(ctx)
		if err != nil {
			return nil, err
		}
		answer, err := h.post(ctx, inv, url, body)
		if err != nil && errors.Is(context.Cause(ctx), workers.ErrTimeout) {
			h.process.Replace(url) // As the Functions host does: the handler may be stuck.
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
	h.process.MarkSuspect(url)
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

// HostVersion is the version of the Functions host whose protocol this is, for handlers that check it.
const HostVersion = "4.1036.0"

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
