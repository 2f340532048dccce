package languageworker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"google.golang.org/grpc"

	"github.com/lazuli-storage/lazuli/functions"
	"github.com/lazuli-storage/lazuli/internal/child"
	rpc "github.com/lazuli-storage/lazuli/internal/functions/languageworker/internal/functionrpc"
	"github.com/lazuli-storage/lazuli/workers"
)

// Runtime implements functions.LanguageWorkers with the workers of this package.
type Runtime struct {
	// Python is the interpreter of Python apps. Empty means that of the app's virtual environment, or the one on the path.
	Python string
	// Debug is the port on 127.0.0.1 for a debugger: debugpy for Python, which waits for it to attach, and the inspector
	// for Node.js. The app then has one process. 0 means none.
	Debug int

	// command replaces the worker's command in tests.
	command func(functions.WorkerSettings, string) (*command, error)
}

var _ functions.LanguageWorkers = Runtime{}

// command starts a worker; the protocol's arguments are added to it.
type command struct {
	path      string
	arguments []string
	environ   []string // in addition to the app's
	folder    string   // with the worker's configFile
	indexes   bool     // the worker finds the app's functions; without it they are those with a function.json
}

// Find implements functions.LanguageWorkers.
func (r Runtime) Find(s functions.WorkerSettings) error {
	if r.command != nil {
		return nil
	}
	_, err := findFolder(s)
	return err
}

// start returns what starts the worker of an app. The workers of this package are written to a folder.
func (r Runtime) start(s functions.WorkerSettings, own string) (*command, error) {
	if r.command != nil {
		return r.command(s, own)
	}
	folder, err := findFolder(s)
	if err != nil {
		return nil, err
	}
	language := programFolders[strings.ToLower(s.Runtime)]
	if folder == "" {
		if err := writeProgram(language, own); err != nil {
			return nil, err
		}
		folder = own
	} else if r.Debug != 0 {
		return nil, fmt.Errorf("--debug is for the workers of Python and Node.js that lazuli has; set "+
			"languageWorkers__%s__arguments to what makes the worker in %s listen for a debugger", s.Runtime, folder)
	}
	config, err := readConfig(folder)
	if err != nil {
		return nil, err
	}
	c, err := config.command(r, s)
	if err != nil {
		return nil, err
	}
	c.environ = append(c.environ, environs[strings.ToLower(s.Runtime)]...)
	if r.Debug != 0 {
		c.environ = append(c.environ, "LAZULI_DEBUG_PORT="+strconv.Itoa(r.Debug))
	}
	return c, nil
}

// environs is what the workers of some runtimes have in their environment in addition.
var environs = map[string][]string{
	"python":          {"PYTHONUNBUFFERED=1"},
	"dotnet-isolated": {"DOTNET_NOLOGO=true", "DOTNET_CLI_TELEMETRY_OPTOUT=true", "DOTNET_SKIP_FIRST_TIME_EXPERIENCE=true"},
}

// maxMessage bounds a message of the protocol, in bytes: a blob of package functions' largest size and its metadata.
const maxMessage = 300 << 20

// Open implements functions.LanguageWorkers.
func (r Runtime) Open(ctx context.Context, s functions.WorkerSettings) (_ functions.WorkerApp, err error) {
	folder, err := os.MkdirTemp("", "lazuli-worker-")
	if err != nil {
		return nil, err
	}
	// A debugger attaches to one process; the invocations of others would pass it by.
	if r.Debug != 0 {
		s.Processes = 1
	}
	a := &App{settings: s, folder: folder, waiting: map[string]*worker{}, changed: make(chan struct{})}
	a.stdout = &child.LineWriter{Out: s.Stdout, Prefix: s.Runtime + " | ", Take: a.ownLog}
	a.stderr = &child.LineWriter{Out: s.Stderr, Prefix: s.Runtime + " | ", Take: a.ownLog}
	defer func() {
		if err != nil {
			a.Close()
		}
	}()
	if a.command, err = r.start(s, folder); err != nil {
		return nil, err
	}
	// Loopback alone: a worker has no secret but its ID, and what connects here gets the app's settings and data.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	a.address = l.Addr().(*net.TCPAddr)
	a.server = grpc.NewServer(grpc.MaxRecvMsgSize(maxMessage), grpc.MaxSendMsgSize(maxMessage))
	a.server.RegisterService(a.describe(), nil)
	a.serving.Go(func() { _ = a.server.Serve(l) })
	// The first worker starts here and not in Run: the host needs the functions that it finds to know what to listen to.
	if a.first, err = a.start(ctx); err != nil {
		return nil, err
	}
	a.takesRequests = a.first.capabilities["HttpUri"] != ""
	return a, nil
}

// ownLogMark begins the lines of a worker's output that are its own log and not what the app has printed. Microsoft's
// workers for Java, Node.js and Python write it. https://github.com/Azure/azure-functions-host (WorkerProcessUtilities)
const ownLogMark = "LanguageWorkerConsoleLog"

// ownLog logs a line if it is of the worker's own log: in detail, since Core Tools show no such line either.
func (a *App) ownLog(line string) bool {
	text, ok := strings.CutPrefix(line, ownLogMark)
	if ok && a.settings.Level("Worker."+a.settings.Runtime) <= slog.LevelDebug {
		a.settings.Logger.Debug(text, "worker", a.settings.Runtime)
	}
	return ok
}

// App implements functions.WorkerApp.
type App struct {
	settings       functions.WorkerSettings
	folder         string // for the program of a worker of this package
	command        *command
	address        *net.TCPAddr
	server         *grpc.Server
	serving        sync.WaitGroup
	stdout, stderr io.Writer
	loads          []functions.WorkerFunction
	takesRequests  bool // the workers have HTTP servers
	closed         sync.Once

	mu      sync.Mutex         // guards the rest
	first   *worker            // started by Open, until Run takes it
	waiting map[string]*worker // those that were started and have no stream yet, by ID
	ready   []*worker
	next    int           // index of the worker for the next invocation
	changed chan struct{} // closed when ready or fatal change
	fatal   error         // no worker will ever be ready again
}

// Functions implements functions.WorkerApp.
func (a *App) Functions() ([]functions.WorkerFunction, bool) {
	return a.first.functions, a.first.indexed
}

// TakesRequests implements functions.WorkerApp.
func (a *App) TakesRequests() bool { return a.takesRequests }

// Load implements functions.WorkerApp.
func (a *App) Load(functions []functions.WorkerFunction) { a.loads = functions }

// Close implements functions.WorkerApp.
func (a *App) Close() {
	a.closed.Do(func() {
		a.mu.Lock()
		// Still set only if Run has not taken it over; otherwise once ends it.
		w := a.first
		a.first = nil
		a.mu.Unlock()
		if w != nil {
			w.end()
		}
		if a.server != nil {
			// Stop and not GracefulStop, which would wait for streams that workers keep open for as long as they live.
			a.server.Stop()
		}
		a.serving.Wait()
		_ = os.RemoveAll(a.folder)
	})
}

// errStopped means that the host has ended its workers.
var errStopped = errors.New("the worker was stopped")

// Run implements functions.WorkerApp.
func (a *App) Run(ctx context.Context) error {
	defer a.Close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	for range a.settings.Processes {
		all.Go(func() {
			if err := child.Keep(ctx, a.settings.Logger, "the worker", "the worker "+a.command.path, a.once); err != nil {
				cancel(err)
			}
		})
	}
	// One process that cannot be kept alive ends them all: cancel above has the reason.
	all.Wait()
	err := context.Cause(ctx)
	if errors.Is(err, context.Canceled) {
		a.fail(errStopped)
		return nil
	}
	a.fail(err)
	return err
}

// fail makes all invocations that wait for a worker fail.
func (a *App) fail(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	// Set before changed is closed: pick reads both under mu, so that none of those that wait sleeps on.
	a.fatal = err
	close(a.changed)
	a.changed = make(chan struct{})
}

// once runs one worker from its start to its end, and reports whether it was ready in between.
func (a *App) once(ctx context.Context) (ready bool, err error) {
	a.mu.Lock()
	w := a.first
	a.first = nil
	a.mu.Unlock()
	if w == nil {
		if w, err = a.start(ctx); err != nil {
			return false, err
		}
	}
	defer w.end()
	if err := w.load(ctx, a.loads); err != nil {
		return false, err
	}
	a.settings.Logger.Info("the worker is ready", "runtime", a.settings.Runtime, "pid", w.process.Pid())
	// Only a worker that has loaded the functions gets invocations.
	// The leave in the defer is a second one on most ways. The list must not have the worker when end has closed it.
	a.join(w)
	defer a.leave(w)
	select {
	case <-w.gone:
	// The worker leaves before it ends, so that no invocation is given to a process that is about to be killed.
	case <-w.hangs:
		a.leave(w)
		return true, child.ErrReplaced
	case <-ctx.Done():
		return true, nil
	}
	a.leave(w)
	return true, w.exit()
}

func (a *App) join(w *worker) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ready = append(a.ready, w)
	close(a.changed)
	a.changed = make(chan struct{})
}

func (a *App) leave(w *worker) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ready = slices.DeleteFunc(a.ready, func(other *worker) bool { return other == w })
}

// pick returns the next worker as soon as there is one.
func (a *App) pick(ctx context.Context) (*worker, error) {
	for {
		a.mu.Lock()
		var w *worker
		if len(a.ready) > 0 {
			a.next = (a.next + 1) % len(a.ready)
			w = a.ready[a.next]
		}
		// Under the same lock as the look at ready: a worker that joins after it closes this very channel.
		fatal, changed := a.fatal, a.changed
		a.mu.Unlock()
		switch {
		case fatal != nil:
			return nil, fatal
		case w != nil:
			return w, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, fmt.Errorf("no worker is ready: %w", context.Cause(ctx))
		}
	}
}

// Invoke implements functions.WorkerApp.
func (a *App) Invoke(ctx context.Context, call *functions.Invocation) (*functions.Result, error) {
	for {
		w, err := a.pick(ctx)
		if err != nil {
			return nil, err
		}
		// Only what was surely not sent is repeated. A function whose worker died in between may have had effects.
		result, err := w.invoke(ctx, call)
		// The worker leaves the list first. Otherwise it could be picked until its process is found to have ended.
		if errors.Is(err, errUnsent) {
			a.leave(w)
			continue
		}
		if err != nil && errors.Is(context.Cause(ctx), workers.ErrTimeout) {
			a.leave(w)
			w.replace() // As the Functions host does: the worker may be stuck.
		}
		return result, err
	}
}

// Processes implements functions.WorkerApp.
func (a *App) Processes(ctx context.Context) []functions.WorkerProcess {
	a.mu.Lock()
	ready := slices.Clone(a.ready)
	a.mu.Unlock()
	list := make([]functions.WorkerProcess, len(ready))
	var all sync.WaitGroup
	for i, w := range ready {
		all.Go(func() { list[i] = w.status(ctx) })
	}
	all.Wait()
	return list
}

// describe returns the service of the protocol.
func (a *App) describe() *grpc.ServiceDesc {
	return &grpc.ServiceDesc{ServiceName: "AzureFunctionsRpcMessages.FunctionRpc", HandlerType: (*any)(nil),
		Streams: []grpc.StreamDesc{{StreamName: "EventStream", ServerStreams: true, ClientStreams: true,
			Handler: func(_ any, stream grpc.ServerStream) error { return a.serve(stream) }}}}
}

// serve serves the stream of a worker until its end.
func (a *App) serve(stream grpc.ServerStream) error {
	first := &rpc.StreamingMessage{}
	if err := stream.RecvMsg(first); err != nil {
		return err
	}
	id := first.GetStartStream().GetWorkerId()
	a.mu.Lock()
	w := a.waiting[id]
	delete(a.waiting, id)
	a.mu.Unlock()
	// An ID is good for one stream: what connects with it later, or with another one, is no worker of this host.
	if w == nil {
		return fmt.Errorf("no worker with the ID %q was started", id)
	}
	return w.serve(stream)
}

// protocolArguments are the arguments that tell a worker of the host.
func (a *App) protocolArguments(id, request string) []string {
	port, length := fmt.Sprint(a.address.Port), fmt.Sprint(maxMessage)
	return []string{
		"--host", "127.0.0.1", "--port", port, "--workerId", id, "--requestId", request, "--grpcMaxMessageLength", length,
		"--functions-uri", "http://" + a.address.String() + "/", "--functions-worker-id", id,
		"--functions-request-id", request, "--functions-grpc-max-message-length", length,
	}
}

// setting returns a setting of the app, or "".
func setting(s functions.WorkerSettings, name string) string {
	value, _ := lookup(s, name)
	return value
}

// lookup returns a setting of the app, whose name may have other letter case.
func lookup(s functions.WorkerSettings, name string) (value string, ok bool) {
	for _, line := range s.Environ {
		if k, v, _ := strings.Cut(line, "="); strings.EqualFold(k, name) {
			return v, true
		}
	}
	return "", false
}

// exists reports whether a file is there.
func exists(parts ...string) bool {
	info, err := os.Stat(filepath.Join(parts...))
	return err == nil && !info.IsDir()
}
