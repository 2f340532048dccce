package languageworker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/lazuli-storage/lazuli/functions"
	"github.com/lazuli-storage/lazuli/internal/child"
	rpc "github.com/lazuli-storage/lazuli/internal/functions/languageworker/internal/functionrpc"
)

// startTimeout bounds how long a worker may take from its start until it has told its functions.
const startTimeout = 2 * time.Minute

// worker is one process.
type worker struct {
	app          *App
	id           string
	process      *child.Process
	capabilities map[string]string
	functions    []functions.WorkerFunction
	indexed      bool
	ids          map[string]string // of functions, by name
	loadErrors   map[string]error  // by the functions' names

	connected chan struct{} // closed when there is a stream
	greeted   chan struct{} // closed when its capabilities are known
	gone      chan struct{} // closed when the stream or the process has ended
	goneOnce  sync.Once
	hangs     chan struct{} // closed by replace
	hangsOnce sync.Once

	send   sync.Mutex // held to send
	stream grpc.ServerStream

	mu      sync.Mutex                            // guards the rest
	replies map[string]chan *rpc.StreamingMessage // by request ID
	calls   map[string]*call                      // by invocation ID
}

// call is an invocation that a worker has.
type call struct {
	*functions.Invocation
	done chan *rpc.InvocationResponse
}

// start starts a worker and asks it for its functions.
func (a *App) start(ctx context.Context) (*worker, error) {
	w := &worker{app: a, id: uuid.NewString(), connected: make(chan struct{}), greeted: make(chan struct{}),
		gone: make(chan struct{}), hangs: make(chan struct{}), replies: map[string]chan *rpc.StreamingMessage{},
		calls: map[string]*call{}}
	a.mu.Lock()
	// Before the process starts: it may connect before exec returns, and would be refused.
	a.waiting[w.id] = w
	a.mu.Unlock()
	// With a capacity that is used up, so that two workers that start at once do not append into one array.
	arguments := append(a.command.arguments[:len(a.command.arguments):len(a.command.arguments)],
		a.protocolArguments(w.id, uuid.NewString())...)
	cmd := exec.Command(a.command.path, arguments...)
	cmd.Dir = a.settings.Dir
	cmd.Env = append(a.settings.Environ[:len(a.settings.Environ):len(a.settings.Environ)], a.command.environ...)
	cmd.Stdout, cmd.Stderr = a.stdout, a.stderr
	var err error
	if w.process, err = child.Start(cmd); err != nil {
		a.mu.Lock()
		delete(a.waiting, w.id)
		a.mu.Unlock()
		return nil, &child.StartError{Err: fmt.Errorf("start the worker %s: %w", a.command.path, err)}
	}
	go func() {
		<-w.process.Exited()
		w.lose()
	}()
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout,
		fmt.Errorf("the worker does not come up within %v", startTimeout))
	defer cancel()
	if err = w.greet(ctx); err != nil {
		w.end()
		return nil, err
	}
	return w, nil
}

// lose notes that the worker cannot be reached any more.
func (w *worker) lose() { w.goneOnce.Do(func() { close(w.gone) }) }

// replace has the worker ended, and another one started.
func (w *worker) replace() { w.hangsOnce.Do(func() { close(w.hangs) }) }

// end ends the process: by a message, then by SIGTERM, then by SIGKILL.
func (w *worker) end() {
	w.app.mu.Lock()
	delete(w.app.waiting, w.id)
	w.app.mu.Unlock()
	// The capabilities may be read after greeted is closed, and not before: greet writes them.
	select {
	case <-w.greeted:
		if w.capabilities["HandlesWorkerTerminateMessage"] == "" {
			break
		}
		_ = w.write(&rpc.StreamingMessage{Content: &rpc.StreamingMessage_WorkerTerminate{
			WorkerTerminate: &rpc.WorkerTerminate{GracePeriod: durationpb.New(child.StopGrace)}}})
	default:
	}
	// Also after the message: a worker that does not obey it ends by the signals, after the same grace.
	w.process.End()
	w.lose()
}

// exit waits for the end of a process whose stream has ended, and returns its error.
func (w *worker) exit() error {
	timer := time.NewTimer(child.StopGrace)
	defer timer.Stop()
	select {
	case <-w.process.Exited():
	// A process without a stream is of no use, and would hold its memory and its ports.
	case <-timer.C:
		w.process.Kill()
		return errors.New("it closed its connection to the host")
	}
	return w.process.Err()
}

// serve receives the messages of the worker until the stream's end.
func (w *worker) serve(stream grpc.ServerStream) error {
	w.stream = stream
	// The field is set before: what waits for connected reads the stream without a lock.
	close(w.connected)
	defer w.lose()
	// When this returns, gRPC ends the stream, which also ends the goroutine in RecvMsg.
	ended := make(chan error, 1)
	go func() {
		for {
			m := &rpc.StreamingMessage{}
			if err := stream.RecvMsg(m); err != nil {
				ended <- err
				return
			}
			w.receive(m)
		}
	}()
	select {
	case err := <-ended:
		return err
	case <-w.gone:
		return nil
	}
}

// receive handles one message of the worker.
func (w *worker) receive(m *rpc.StreamingMessage) {
	switch {
	case m.GetRpcLog() != nil:
		w.log(m.GetRpcLog())
	case m.GetInvocationResponse() != nil:
		r := m.GetInvocationResponse()
		w.mu.Lock()
		c := w.calls[r.GetInvocationId()]
		delete(w.calls, r.GetInvocationId())
		w.mu.Unlock()
		if c != nil {
			// This never blocks: the channel has room for one response, and the call is not in the map any more.
			c.done <- r
		}
	default:
		// Responses to several loads share one request ID; load has expected them under both IDs.
		key := m.GetRequestId()
		if load := m.GetFunctionLoadResponse(); load != nil {
			key += load.GetFunctionId()
		}
		w.mu.Lock()
		reply := w.replies[key]
		delete(w.replies, key)
		w.mu.Unlock()
		if reply != nil {
			reply <- m
		}
	}
}

// write sends a message.
func (w *worker) write(m *rpc.StreamingMessage) error {
	w.send.Lock()
	defer w.send.Unlock()
	return w.stream.SendMsg(m)
}

// expect returns the channel of the response to a request.
func (w *worker) expect(key string) <-chan *rpc.StreamingMessage {
	reply := make(chan *rpc.StreamingMessage, 1)
	w.mu.Lock()
	w.replies[key] = reply
	w.mu.Unlock()
	return reply
}

// wait waits for a response.
func (w *worker) wait(ctx context.Context, reply <-chan *rpc.StreamingMessage) (*rpc.StreamingMessage, error) {
	select {
	case m := <-reply:
		return m, nil
	case <-w.gone:
		return nil, w.died()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// died describes how a worker ended that was not ready yet.
func (w *worker) died() error {
	if err := w.exit(); err != nil {
		return fmt.Errorf("the worker ended: %w", err)
	}
	return errors.New("the worker ended with code 0")
}

// ask sends a request and waits for the response.
func (w *worker) ask(ctx context.Context, m *rpc.StreamingMessage) (*rpc.StreamingMessage, error) {
	m.RequestId = uuid.NewString()
	reply := w.expect(m.RequestId)
	defer func() {
		w.mu.Lock()
		// Also after a response: a request that timed out would keep its channel for the life of the worker.
		delete(w.replies, m.RequestId)
		w.mu.Unlock()
	}()
	if err := w.write(m); err != nil {
		return nil, fmt.Errorf("send to the worker: %w", err)
	}
	return w.wait(ctx, reply)
}

// statusTimeout bounds how long a worker may take to answer a WorkerStatusRequest.
const statusTimeout = time.Second

// status asks the worker for its state.
func (w *worker) status(ctx context.Context) functions.WorkerProcess {
	w.mu.Lock()
	s := functions.WorkerProcess{PID: w.process.Pid(), Running: len(w.calls)}
	w.mu.Unlock()
	if w.capabilities["WorkerStatus"] == "" {
		return s
	}
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	began := time.Now()
	if _, err := w.ask(ctx, &rpc.StreamingMessage{Content: &rpc.StreamingMessage_WorkerStatusRequest{
		WorkerStatusRequest: &rpc.WorkerStatusRequest{}}}); err == nil {
		took := float64(time.Since(began).Microseconds()) / 1000
		s.Milliseconds = &took
	}
	return s
}

// greet does what comes before the first invocation, except that functions are loaded.
func (w *worker) greet(ctx context.Context) error {
	select {
	case <-w.connected:
	case <-w.gone:
		return w.died()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	s := w.app.settings
	levels := map[string]rpc.RpcLog_Level{}
	for _, category := range []string{"Default", "Function", "Worker"} {
		levels[category] = rpcLevel(s.Level(category))
	}
	m, err := w.ask(ctx, &rpc.StreamingMessage{Content: &rpc.StreamingMessage_WorkerInitRequest{
		WorkerInitRequest: &rpc.WorkerInitRequest{
			HostVersion: functions.HostVersion, WorkerDirectory: w.app.command.folder, FunctionAppDirectory: s.Dir,
			LogCategories: levels,
			Capabilities:  map[string]string{"MultiStream": "true"},
		}}})
	if err != nil {
		return err
	}
	hello := m.GetWorkerInitResponse()
	if err := status(hello.GetResult(), "the worker cannot start"); err != nil {
		return err
	}
	w.capabilities, w.ids = hello.GetCapabilities(), map[string]string{}
	// Only now: end and status read the capabilities as soon as greeted is closed.
	close(w.greeted)
	if !w.app.command.indexes {
		return nil // The worker for Java has no handler for the next message, and its stream would break.
	}
	m, err = w.ask(ctx, &rpc.StreamingMessage{Content: &rpc.StreamingMessage_FunctionsMetadataRequest{
		FunctionsMetadataRequest: &rpc.FunctionsMetadataRequest{FunctionAppDirectory: s.Dir}}})
	if err != nil {
		return err
	}
	found := m.GetFunctionMetadataResponse()
	if err := status(found.GetResult(), "the worker cannot read the functions"); err != nil {
		return err
	}
	w.indexed = found != nil && !found.GetUseDefaultMetadataIndexing()
	for _, f := range found.GetFunctionMetadataResults() {
		if err := status(f.GetStatus(), "function "+f.GetName()); f.GetStatus() != nil && err != nil {
			return err
		}
		if f.FunctionId == "" {
			f.FunctionId = functionID(f.GetName())
		}
		w.ids[f.GetName()] = f.GetFunctionId()
		w.functions = append(w.functions, indexedFunction(f))
	}
	return nil
}

// functionID returns the ID of a function without one.
func functionID(name string) string { return uuid.NewSHA1(uuid.NameSpaceOID, []byte(name)).String() }

// status returns the error of a result.
func status(r *rpc.StatusResult, what string) error {
	if r == nil || r.GetStatus() == rpc.StatusResult_Success {
		return nil
	}
	text := r.GetException().GetMessage()
	if text == "" {
		text = r.GetResult()
	}
	if stack := r.GetException().GetStackTrace(); stack != "" {
		text += "\n" + strings.TrimRight(stack, "\n")
	}
	return fmt.Errorf("%s: %s", what, text)
}

// load loads the functions that are to be invoked. One that cannot be loaded fails when it is invoked.
func (w *worker) load(ctx context.Context, list []functions.WorkerFunction) error {
	w.loadErrors = map[string]error{}
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout,
		fmt.Errorf("the worker does not load its functions within %v", startTimeout))
	defer cancel()
	names := map[string]string{}
	request := uuid.NewString()
	var requests []*rpc.FunctionLoadRequest
	var replies []<-chan *rpc.StreamingMessage
	for _, f := range list {
		id := w.ids[f.Name]
		// A function with a function.json: the worker has not named it, so the host gives it an ID that does not change.
		if id == "" {
			id = functionID(f.Name)
			w.ids[f.Name] = id
		}
		names[id] = f.Name
		requests = append(requests, &rpc.FunctionLoadRequest{FunctionId: id, Metadata: metadata(f, id)})
	}
	note := func(r *rpc.FunctionLoadResponse) {
		name := names[r.GetFunctionId()]
		if err := status(r.GetResult(), "the worker cannot load the function "+name); err != nil {
			w.loadErrors[name] = err
			w.app.settings.Logger.Error(err.Error())
		}
	}
	if w.capabilities["SupportsLoadResponseCollection"] != "" {
		m, err := w.ask(ctx, &rpc.StreamingMessage{Content: &rpc.StreamingMessage_FunctionLoadRequestCollection{
			FunctionLoadRequestCollection: &rpc.FunctionLoadRequestCollection{FunctionLoadRequests: requests}}})
		if err != nil {
			return err
		}
		for _, r := range m.GetFunctionLoadResponseCollection().GetFunctionLoadResponses() {
			note(r)
		}
		return nil
	}
	// All requests are sent before the first response is awaited. They share one request ID, so receive tells their
	// responses apart by the IDs of the functions.
	for _, r := range requests {
		replies = append(replies, w.expect(request+r.FunctionId))
		if err := w.write(&rpc.StreamingMessage{RequestId: request, Content: &rpc.StreamingMessage_FunctionLoadRequest{
			FunctionLoadRequest: r}}); err != nil {
			return fmt.Errorf("send to the worker: %w", err)
		}
	}
	for _, reply := range replies {
		m, err := w.wait(ctx, reply)
		if err != nil {
			return err
		}
		note(m.GetFunctionLoadResponse())
	}
	return nil
}

// errUnsent means that a worker did not get an invocation.
var errUnsent = errors.New("the worker did not get the invocation")

// errFailed means that a function has failed whose request was passed on to its worker.
var errFailed = errors.New("the function has failed")

// invoke calls a function and waits for its response.
func (w *worker) invoke(ctx context.Context, c *functions.Invocation) (*functions.Result, error) {
	if err := w.loadErrors[c.Function]; err != nil {
		return nil, &functions.FunctionError{Err: err}
	}
	uri := ""
	if c.Forward != nil {
		uri = w.capabilities["HttpUri"]
	}
	request, err := w.request(c, uri != "")
	if err != nil {
		return nil, &functions.FunctionError{Err: err}
	}
	// The call is in the map before the request is sent: the response may arrive before write returns.
	pending := &call{Invocation: c, done: make(chan *rpc.InvocationResponse, 1)}
	w.mu.Lock()
	w.calls[c.ID] = pending
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		delete(w.calls, c.ID)
		w.mu.Unlock()
	}()
	select {
	// Between pick and here the worker may have ended. Nothing was sent, so another worker can take the call.
	case <-w.gone:
		return nil, errUnsent
	default:
	}
	if err := w.write(&rpc.StreamingMessage{RequestId: c.ID,
		Content: &rpc.StreamingMessage_InvocationRequest{InvocationRequest: request}}); err != nil {
		return nil, errUnsent
	}
	var forwarded chan error
	returned := make(chan error, 1)
	forwarding, stopForwarding := context.WithCancel(ctx)
	defer stopForwarding()
	if uri != "" {
		forwarded = make(chan error, 1)
		go func() { forwarded <- c.Forward(forwarding, uri, returned) }()
	}
	gone := c.Gone
	var response *rpc.InvocationResponse
	// A request that is passed on has two ends, in either order: the response of the function, and the end of what
	// Forward copies. Both are awaited.
	for response == nil || forwarded != nil {
		select {
		case response = <-pending.done:
			if response.GetResult().GetStatus() == rpc.StatusResult_Success {
				// It has room for this one value, so that the loop does not wait for Forward, which may have ended.
				returned <- nil
			} else {
				returned <- errFailed
			}
		case err := <-forwarded:
			forwarded = nil
			// After a function that has failed, its own error says more.
			if err != nil && (response == nil || response.GetResult().GetStatus() == rpc.StatusResult_Success) {
				w.cancel(c)
				return nil, err
			}
		case <-gone:
			gone = nil // An answer comes all the same.
			w.cancel(c)
		case <-w.gone:
			// Forward writes to the client's response, which it must not do after this has returned.
			stopForwarding()
			if forwarded != nil {
				<-forwarded
			}
			return nil, errors.New("the worker ended during the invocation")
		case <-ctx.Done():
			w.cancel(c)
			if forwarded != nil {
				<-forwarded
			}
			return nil, fmt.Errorf("wait for the worker: %w", context.Cause(ctx))
		}
	}
	return w.result(c, response)
}

// cancel tells the worker that an invocation's result is not wanted any more, if it has a handler for the message:
// that for Java has none, and would end its stream.
func (w *worker) cancel(c *functions.Invocation) {
	if w.capabilities["HandlesInvocationCancelMessage"] == "" {
		return
	}
	_ = w.write(&rpc.StreamingMessage{Content: &rpc.StreamingMessage_InvocationCancel{
		InvocationCancel: &rpc.InvocationCancel{InvocationId: c.ID}}})
}

// dotnetInvocations is the category in which the worker of .NET logs the exception of each invocation that fails, as if
// the function had.
const dotnetInvocations = "Microsoft.Azure.Functions.Worker.FunctionsApplication"

// log writes a record of the worker.
func (w *worker) log(r *rpc.RpcLog) {
	if r.GetLogCategory() == rpc.RpcLog_CustomMetric {
		return
	}
	level, message := slogLevel(r.GetLevel()), r.GetMessage()
	if e := r.GetException(); e != nil && !strings.Contains(message, e.GetMessage()) {
		message += "\n" + e.GetMessage() + "\n" + e.GetStackTrace()
	}
	message = strings.TrimRight(message, "\r\n")
	user := r.GetLogCategory() == rpc.RpcLog_User
	if r.GetCategory() == dotnetInvocations && r.GetException() != nil && r.GetInvocationId() != "" {
		return // The response has it as well.
	}
	w.mu.Lock()
	c := w.calls[r.GetInvocationId()]
	w.mu.Unlock()
	if c != nil {
		c.Log(user, level, message)
		return
	}
	category := "Worker." + w.app.settings.Runtime
	if user {
		category = "Function"
	} else if level == slog.LevelInfo {
		// Core Tools show the records that workers write for themselves from warnings on. That for Java has two for each
		// function when it starts.
		level = slog.LevelDebug
	}
	if level >= w.app.settings.Level(category) {
		w.app.settings.Logger.Log(context.Background(), level, message, "worker", w.process.Pid())
	}
}

// The levels of records, by the protocol's numbers: Trace to Critical.
var slogLevels = []slog.Level{slog.LevelDebug - 4, slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError,
	slog.LevelError + 4}

func slogLevel(l rpc.RpcLog_Level) slog.Level {
	if int(l) < len(slogLevels) && l >= 0 {
		return slogLevels[l]
	}
	return slog.LevelInfo
}

// rpcLevel returns the level of the protocol for the least level of a category.
func rpcLevel(l slog.Level) rpc.RpcLog_Level {
	for i, level := range slogLevels {
		if l <= level {
			return rpc.RpcLog_Level(i)
		}
	}
	return rpc.RpcLog_None
}
