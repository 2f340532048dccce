package functions

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lazuli-storage/lazuli/internal/minutes"
	"github.com/lazuli-storage/lazuli/internal/recent"
	"github.com/lazuli-storage/lazuli/internal/sdk/sdkerr"
	"github.com/lazuli-storage/lazuli/workers/status"
)

// Bounds of what a host keeps of each invocation; package recent bounds their number.
const (
	keptLogs    = 100      // records
	keptLogText = 2 << 10  // bytes of one record, and of an error
	keptLogAll  = 32 << 10 // bytes of all records
)

// Status holds the functions of a host.
type Status struct {
	// Dir is the app's folder.
	Dir string `json:"dir"`
	// Origin is where the host listens, such as http://localhost:7071; empty before Run.
	Origin string `json:"origin"`
	// Language is the FUNCTIONS_WORKER_RUNTIME, such as "python" or "node", or "custom".
	Language string `json:"language"`
	// Workers are the processes of the language worker.
	Workers   []WorkerProcess  `json:"workers,omitempty"`
	Functions []FunctionStatus `json:"functions"`
}

// FunctionStatus describes one function. Counts are those of this process.
type FunctionStatus struct {
	Name    string `json:"name"`
	Trigger string `json:"trigger"` // such as "queueTrigger"
	// Source is what triggers it: a queue's name, a blob's path, a schedule, or methods and route.
	Source    string `json:"source,omitempty"`
	URL       string `json:"url,omitempty"` // of an HTTP trigger
	Disabled  bool   `json:"disabled,omitempty"`
	Error     string `json:"error,omitempty"` // why it cannot run, if that is why it is disabled
	Running   int    `json:"running"`
	Succeeded int64  `json:"succeeded"`
	Failed    int64  `json:"failed"`
	// LastHour counts the invocations that ended.
	LastHour status.LastHour `json:"lastHour"`
	// Example is an input for RunNow; nil for a function that cannot be run in that way.
	Example *string `json:"example,omitempty"`
	// Invocations are the last 20, the newest first, and behind them those of the last 20 that failed which are older, all
	// without their logs. Status is without them.
	Invocations []InvocationStatus `json:"invocations,omitempty"`
}

// InvocationStatus is one call of a function.
type InvocationStatus struct {
	ID      string    `json:"id"`
	Reason  string    `json:"reason"`
	Began   time.Time `json:"began"`
	Running bool      `json:"running,omitempty"`
	// Milliseconds is the duration, until now for one that runs.
	Milliseconds float64 `json:"milliseconds"`
	Error        string  `json:"error,omitempty"`
	// Logs are the first 100 records that were logged of the call, at most 32 KiB; Dropped counts those after them.
	Logs    []LogRecord `json:"logs,omitempty"`
	Dropped int         `json:"dropped,omitempty"`
}

// LogRecord is one record of an invocation's log.
type LogRecord struct {
	Time  time.Time `json:"time"`
	Level string    `json:"level"`
	// Message has the record's attributes behind it; at most 2 KiB of them are kept.
	Message string `json:"message"`
}

// past holds the last invocations of a host's functions, by the functions' names.
type past struct {
	mu        sync.Mutex // guards the rest, and what is below it
	origin    string     // for Status
	functions map[string]*functionPast
}

type functionPast struct {
	running           int
	succeeded, failed int64
	hour              minutes.Ring // 0: succeeded, 1: failed
	calls             recent.Calls[*invocationPast]
}

type invocationPast struct {
	InvocationStatus
	past   *past
	number uint64 // among the calls of the function
	logged int    // bytes of Logs
}

// begin notes that an invocation begins.
func (p *past) begin(inv *invocation) {
	inv.kept.past = p
	inv.kept.InvocationStatus = InvocationStatus{ID: inv.id, Reason: inv.reason, Began: inv.began, Running: true}
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.functions[inv.function.name]
	if f == nil {
		f = &functionPast{}
		p.functions[inv.function.name] = f
	}
	f.running++
	inv.kept.number = f.calls.Add(inv.kept)
}

// end notes the end of an invocation.
func (p *past) end(inv *invocation, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.functions[inv.function.name]
	if f == nil || !inv.kept.Running {
		return
	}
	now := time.Now()
	inv.kept.Running, inv.kept.Milliseconds = false, milliseconds(now.Sub(inv.began))
	f.running--
	if err != nil {
		f.failed++
		f.hour.Add(now, 1, 1)
		inv.kept.Error = cut(err.Error())
		f.calls.Fail(inv.kept.number, inv.kept)
	} else {
		f.succeeded++
		f.hour.Add(now, 0, 1)
	}
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// cut bounds a text that is kept.
func cut(text string) string {
	if len(text) > keptLogText {
		return strings.ToValidUTF8(text[:keptLogText], "") + "..."
	}
	return text
}

// keeper is a handler of log records that keeps those of an invocation and passes them on.
type keeper struct {
	slog.Handler
	kept *invocationPast
}

// Handle implements slog.Handler.
func (k keeper) Handle(ctx context.Context, r slog.Record) error {
	k.kept.add(r)
	return k.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (k keeper) WithAttrs(attrs []slog.Attr) slog.Handler {
	return keeper{k.Handler.WithAttrs(attrs), k.kept}
}

// WithGroup implements slog.Handler.
func (k keeper) WithGroup(name string) slog.Handler { return keeper{k.Handler.WithGroup(name), k.kept} }

func (i *invocationPast) add(r slog.Record) {
	if i.past == nil {
		return // The invocation has not begun.
	}
	i.past.mu.Lock()
	defer i.past.mu.Unlock()
	if len(i.Logs) == keptLogs || i.logged >= keptLogAll {
		i.Dropped++
		return
	}
	text := cut(r.Message)
	r.Attrs(func(a slog.Attr) bool {
		text += " " + cut(a.String())
		return len(text) <= keptLogText
	})
	text = cut(text)
	i.logged += len(text)
	i.Logs = append(i.Logs, LogRecord{r.Time, LevelName(r.Level), text})
}

// Status returns the state of the functions, and of the processes that run them.
func (h *Host) Status(ctx context.Context) Status {
	s := Status{Dir: h.project.dir, Language: h.project.host.runtime}
	if h.project.worker != nil {
		s.Workers = h.project.worker.Processes(ctx)
	}
	h.past.mu.Lock()
	defer h.past.mu.Unlock()
	s.Origin = h.past.origin
	if s.Language == "" {
		s.Language = "custom"
	}
	now := time.Now()
	for _, f := range slices.Concat(h.project.functions, h.project.disabled) {
		s.Functions = append(s.Functions, h.functionStatus(f, now))
	}
	return s
}

// functionStatus returns the state of a function without its invocations. The caller holds h.past.mu.
func (h *Host) functionStatus(f *function, now time.Time) FunctionStatus {
	p := h.past.functions[f.name]
	if p == nil {
		p = &functionPast{}
	}
	s := FunctionStatus{Name: f.name, Trigger: f.trigger.kind, Source: h.source(f),
		Disabled: slices.Contains(h.project.disabled, f), Running: p.running, Succeeded: p.succeeded, Failed: p.failed,
		LastHour: status.LastHour{Succeeded: p.hour.List(now, 0), Failed: p.hour.List(now, 1)}}
	if f.route != nil && h.past.origin != "" {
		s.URL = h.past.origin + "/" + h.path(f)
	}
	if err := errors.Join(f.errs...); err != nil {
		s.Error = err.Error()
	}
	if text, ok := f.example(); ok && !s.Disabled {
		s.Example = &text
	}
	return s
}

// functionNamed returns the function of a name, also one that is disabled, or an ErrNoFunction.
func (h *Host) functionNamed(name string) (*function, error) {
	all := slices.Concat(h.project.functions, h.project.disabled)
	at := slices.IndexFunc(all, func(f *function) bool { return strings.EqualFold(f.name, name) })
	if at < 0 {
		return nil, fmt.Errorf("%w: %s", ErrNoFunction, name)
	}
	return all[at], nil
}

// FunctionStatus returns the state of a function and its invocations. The error is ErrNoFunction.
func (h *Host) FunctionStatus(name string) (FunctionStatus, error) {
	f, err := h.functionNamed(name)
	if err != nil {
		return FunctionStatus{}, err
	}
	h.past.mu.Lock()
	defer h.past.mu.Unlock()
	now := time.Now()
	s := h.functionStatus(f, now)
	if p := h.past.functions[f.name]; p != nil {
		for _, i := range p.calls.All() {
			copied := i.at(now)
			copied.Logs = nil
			s.Invocations = append(s.Invocations, copied)
		}
	}
	return s, nil
}

// at returns the status of an invocation at a time.
func (i *invocationPast) at(now time.Time) InvocationStatus {
	s := i.InvocationStatus
	if s.Running {
		s.Milliseconds = milliseconds(now.Sub(s.Began))
	}
	return s
}

// Invocation returns an invocation of a function with its logs. The error is ErrNoFunction, or ErrNoInvocation.
func (h *Host) Invocation(name, id string) (InvocationStatus, error) {
	f, err := h.functionNamed(name)
	if err != nil {
		return InvocationStatus{}, err
	}
	h.past.mu.Lock()
	defer h.past.mu.Unlock()
	if p := h.past.functions[f.name]; p != nil {
		for _, i := range p.calls.All() {
			if i.ID == id {
				s := i.at(time.Now())
				s.Logs = slices.Clone(s.Logs)
				return s, nil
			}
		}
	}
	return InvocationStatus{}, fmt.Errorf("%w: %s", ErrNoInvocation, id)
}

// source describes what triggers a function.
func (h *Host) source(f *function) string {
	switch f.trigger.kind {
	case kindHTTPTrigger:
		return f.allMethods() + " /" + h.path(f)
	case kindQueueTrigger, kindTableTrigger:
		return f.trigger.target.source
	case kindBlobTrigger:
		return f.trigger.path
	case kindTimerTrigger:
		return f.trigger.schedule
	}
	return ""
}

// example returns an input with which the function can be run by hand; false for one that other code calls.
func (f *function) example() (string, bool) {
	switch f.trigger.kind {
	case kindHTTPTrigger:
		return `{"name": "Ada"}`, true
	case kindQueueTrigger:
		return `{"id": 1}`, true
	case kindBlobTrigger:
		return f.trigger.path, true // The path of a blob.
	case kindTableTrigger:
		return `{"Change": "insert", "PartitionKey": "p", "RowKey": "1", "Entity": {"PartitionKey": "p", "RowKey": "1"}}`, true
	case kindTimerTrigger, kindWarmup:
		return "", true
	case kindOrchestrationTrigger:
		return "null", true
	case kindEventTrigger:
		return `{"id": "1", "eventType": "Microsoft.Storage.BlobCreated", "subject": ` +
			`"/blobServices/default/containers/c/blobs/b", "eventTime": "2026-01-01T00:00:00Z", "dataVersion": "", ` +
			`"data": {}}`, true
	}
	return "", false
}

// Run says how RunNow runs a function.
type Run struct {
	// Input is the queue message, the path of a blob, the event, the workflow's input as JSON, or the body of a request.
	Input string `json:"input"`
	// Method and Path are those of a request to an HTTP trigger. Default: the first method of the function, or POST, and
	// its route, which then cannot have required parameters. A path may have a query.
	Method string `json:"method,omitempty"`
	Path   string `json:"path,omitempty"`
}

// Ran is what RunNow has to say: the response of an HTTP trigger, or of the start of a workflow; Status 0 for others.
type Ran struct {
	Status int         `json:"status,omitempty"`
	Header http.Header `json:"header,omitempty"`
	Body   string      `json:"body,omitempty"`
}

// Errors of Invocation and RunNow.
var (
	ErrNoFunction   = errors.New("no function has this name")
	ErrNoInvocation = errors.New("the invocation is not kept any more")
	ErrNotRunnable  = errors.New("the function cannot be run by hand")
)

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
			run.Path = "/" + h.path(f)
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
	input, err := marshal(run.Input)
	if err != nil {
		return nil, err
	}
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
		r.Header.Set(keyHeader, h.keys.get(keyMaster))
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

// NewStatusHandler serves the state of a host to pages and tools:
//
//	GET  /                           the Status as JSON
//	GET  /{function}                 its FunctionStatus
//	GET  /{function}/invocations/ID  an InvocationStatus
//	POST /{function}/run             RunNow, with a Run as JSON in the body; the answer is a Ran
//
// It has no authentication, and does not look at what has caused a request: serve it on a loopback address, behind a
// check of origins. The host itself serves it below /admin/lazuli/.
func NewStatusHandler(h *Host) http.Handler {
	mux := http.NewServeMux()
	refuse := func(w http.ResponseWriter, status int, message string) {
		writeJSON(w, status, map[string]string{"error": message})
	}
	// Each pattern names its method, so that the mux answers 405 for others, with Allow.
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		writeJSON(w, http.StatusOK, h.Status(r.Context()))
	})
	mux.HandleFunc("GET /{function}", func(w http.ResponseWriter, r *http.Request) {
		s, err := h.FunctionStatus(r.PathValue("function"))
		if err != nil {
			refuse(w, http.StatusNotFound, err.Error())
			return
		}
		writeJSON(w, http.StatusOK, s)
	})
	mux.HandleFunc("GET /{function}/invocations/{id}", func(w http.ResponseWriter, r *http.Request) {
		i, err := h.Invocation(r.PathValue("function"), r.PathValue("id"))
		if err != nil {
			refuse(w, http.StatusNotFound, err.Error())
			return
		}
		writeJSON(w, http.StatusOK, i)
	})
	mux.HandleFunc("POST /{function}/run", func(w http.ResponseWriter, r *http.Request) {
		var run Run
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&run); err != nil {
			refuse(w, http.StatusBadRequest, `want a body like {"input": "text"}`)
			return
		}
		ran, err := h.RunNow(r.Context(), r.PathValue("function"), run)
		switch {
		case errors.Is(err, ErrNoFunction):
			refuse(w, http.StatusNotFound, err.Error())
		case errors.Is(err, ErrNotRunnable):
			refuse(w, http.StatusBadRequest, err.Error())
		// Not 500: the function has run and failed, and the text is its own.
		case err != nil:
			refuse(w, http.StatusUnprocessableEntity, sdkerr.Text(err))
		default:
			writeJSON(w, http.StatusOK, ran)
		}
	})
	return mux
}
