package functions

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/lazuli-storage/lazuli/functions/internal/jsonvalue"
	"github.com/lazuli-storage/lazuli/functions/internal/keys"
)

// Run says how RunNow runs a function.
type Run struct {
	// Input is the queue message, the path of a blob, the event, the workflow's input as JSON, or the body of a request.
	Input string `json:"input"`
	// Method and Path are those of a request to an HTTP trigger. Default: the first method of the function, or POST, and
	// its route, which then cannot have required parameters. A path may have a query.
	Method string `json:"method,omitempty"`
	Path   string `json:"path,omitempty"`
}

// Ran is the result of RunNow: the response of an HTTP trigger, or of the start of a workflow; Status 0 for others.
type Ran struct {
	Status int         `json:"status,omitempty"`
	Header http.Header `json:"header,omitempty"`
	Body   string      `json:"body,omitempty"`
}

// RunNow runs a function, by its trigger's rules but without its source, and waits for its end, at a workflow for its
// start. The error is ErrNoFunction, ErrNotRunnable or that of the invocation.
func (h *Host) RunNow(ctx context.Context, name string, run Run) (*Ran, error) {
	at := slices.IndexFunc(h.project.functions, func(f *function) bool { return strings.EqualFold(f.name, name) })
	if at < 0 {
		return nil, fmt.Errorf("%w: %s", ErrNoFunction, name)
	}
	f := h.project.functions[at]
	switch _, ok := f.example(); {
	case !ok:
		return nil, fmt.Errorf("%w: %s is called by workflows", ErrNotRunnable, f.name)
	case f.trigger.kind == kindHTTPTrigger:
		if run.Path == "" {
			run.Path = "/" + h.pathOf(f)
			if strings.ContainsAny(run.Path, "{}") {
				return nil, fmt.Errorf("%w without a path: its route is %s", ErrNotRunnable, run.Path)
			}
		}
		if run.Method == "" {
			run.Method = http.MethodPost
			if len(f.methods) > 0 && !slices.Contains(f.methods, run.Method) {
				run.Method = f.methods[0]
			}
		}
		return h.ask(ctx, run)
	case f.trigger.kind == kindOrchestrationTrigger:
		return h.ask(ctx, Run{Input: run.Input, Method: http.MethodPost, Path: durablePath + "orchestrators/" + f.name})
	}
	input, err := jsonvalue.Marshal(run.Input)
	if err != nil {
		return nil, err
	}
	// The host's context and not the caller's: a function that has begun does not end because a browser was closed. A
	// stop of the host waits for it as for other calls.
	h.calls.Add(1)
	defer h.calls.Done()
	return &Ran{}, h.callManually(h.hard, f, input)
}

// ask sends a request to the host itself.
func (h *Host) ask(ctx context.Context, run Run) (*Ran, error) {
	h.past.mu.Lock()
	origin := h.past.origin
	h.past.mu.Unlock()
	r, err := http.NewRequestWithContext(ctx, run.Method, origin+run.Path, strings.NewReader(run.Input))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotRunnable, err)
	}
	if json.Valid([]byte(run.Input)) {
		r.Header.Set("Content-Type", "application/json")
	}
	if h.keys != nil {
		r.Header.Set(keys.Header, h.keys.Get(keys.Master))
	}
	got, err := h.client.Do(r)
	if err != nil {
		return nil, err
	}
	defer got.Body.Close()
	text, err := io.ReadAll(io.LimitReader(got.Body, maxRan))
	if err != nil {
		return nil, err
	}
	return &Ran{Status: got.StatusCode, Header: got.Header, Body: string(bytes.ToValidUTF8(text, []byte("\ufffd")))}, nil
}

// maxRan bounds the body of a response that RunNow returns, in bytes; the rest is left out.
const maxRan = 1 << 20
