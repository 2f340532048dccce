package functions

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lazuli-storage/lazuli/internal/httpserver"
	"github.com/lazuli-storage/lazuli/internal/sdk/connstr"
	"github.com/lazuli-storage/lazuli/internal/sdk/hostrow"
	"github.com/lazuli-storage/lazuli/workers"
)

// Config says what to run, and how.
type Config struct {
	// Dir is the folder with host.json.
	Dir string
	// Environ is the environment as "name=value": of the handler, and for settings. It goes before local.settings.json.
	Environ []string
	// ConnectionString is used wherever a setting says UseDevelopmentStorage=true. Empty leaves that to mean the usual
	// ports.
	ConnectionString string
	// Functions are the names of those to run; none means all.
	Functions []string
	// Logger receives the host's records and those of functions, of the levels that host.json wants: its handler must not
	// leave out some itself. Nil means slog.Default().
	Logger *slog.Logger
	// Stdout and Stderr receive the handler's output, each line prefixed with "handler | ". Nil discards it.
	Stdout, Stderr io.Writer
	// Lease is the time that a queue message stays hidden after the death of this process; 0 means the default of package
	// workers.
	Lease time.Duration
	// Verbose: the records of the host itself include those for debugging, unless host.json has a level for Host.
	Verbose bool
	// CORS are origins whose pages may call functions, separated by commas, in place of those of local.settings.json; with
	// CORSCredentials they may send cookies.
	CORS            string
	CORSCredentials bool
	// DrainTimeout is the time that invocations may take to end at a stop; 0 means the default of package workers.
	DrainTimeout time.Duration
	// Middleware wraps every invocation, whatever triggered it; the first is outermost.
	Middleware []workers.Middleware
	// Workers runs apps without a custom handler, in language workers; without it they cannot be loaded.
	Workers LanguageWorkers
	// Port is the port of Run's listener, for WEBSITE_HOSTNAME in the environment of a language worker, which is started
	// by Load. 0 means that it is not known yet.
	Port int
	// Durable runs the orchestrations and activities of the app; without it, an app that has some cannot be loaded.
	Durable Durable
	// Keys is the file with the keys that HTTP requests must have, by the authLevel of functions. It is written if it does
	// not exist. Empty: no keys are asked for, and only requests that name an IP address, localhost, or one of AllowHosts
	// are served.
	Keys       string
	AllowHosts []string
}

// Host runs the functions of one folder. Its methods may be used by several goroutines.
type Host struct {
	project *project
	config  Config
	log     *slog.Logger
	process *process // of a custom handler
	invoker invoker
	app     *workers.App
	storage bool       // app has functions
	durable DurableApp // nil: no orchestrations, activities and entities
	// messages: a durable client calls the gRPC endpoint. builtIn: durable's own activities are registered.
	messages, builtIn bool
	origin            string // of the host's own addresses, such as http://localhost:7071
	keys              *keyStore
	durableSecret     string       // in the address for the app's own clients of workflows
	client            *http.Client // to the handler
	worker            *http.Client // to the HTTP server of a language worker
	forwardIdle       time.Duration
	began             time.Time
	warned            sync.Map // *binding: a warning was given
	past              past

	calls sync.WaitGroup // invocations that no trigger of package workers waits for
	// hard is their context, and done when giveUp is called.
	hard   context.Context
	giveUp context.CancelCauseFunc

	// stopping is done when the host begins to stop: what runs ends, and nothing begins.
	stopping  context.Context
	beginStop context.CancelFunc

	// keep keeps the handler running until ctx is done: process.run, but for tests.
	keep func(ctx context.Context) error

	mu       sync.Mutex // guards accounts
	accounts map[string]*workers.Storage
}

// idleConnection is the idle timeout of connections to the handler. It is shorter than that of common servers (Node: 5
// s): a request on a connection that the handler is closing would fail, and count as an attempt.
const idleConnection = 3 * time.Second

// Load reads the folder, and starts a language worker, if the app needs one, which tells what functions there are. An
// error names every file and field that is wrong or not supported. A Host that is not run must be closed.
func Load(ctx context.Context, c Config) (*Host, error) {
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Stdout == nil {
		c.Stdout = io.Discard
	}
	if c.Stderr == nil {
		c.Stderr = io.Discard
	}
	var keys *keyStore
	if c.Keys != "" {
		var err error
		if keys, err = openKeys(c.Keys); err != nil {
			return nil, err
		}
	}
	p, err := loadProject(ctx, c)
	if err != nil {
		return nil, err
	}
	h := &Host{
		keys: keys, durableSecret: rand.Text(),
		project: p, config: c, log: slog.New(leveled{c.Logger.Handler(), p.host.levels}),
		accounts: map[string]*workers.Storage{},
		past:     past{functions: map[string]*functionPast{}},
		client: &http.Client{
			Transport: &http.Transport{MaxIdleConnsPerHost: 256, IdleConnTimeout: idleConnection, DisableCompression: true},
			CheckRedirect: func(*http.Request, []*http.Request) error {
				return http.ErrUseLastResponse // A redirect is not a 2xx status: the invocation failed.
			},
		},
	}
	h.worker = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256, IdleConnTimeout: idleConnection,
		DisableCompression: true, DialContext: dialWorker}}
	h.forwardIdle = forwardIdle
	h.process = newProcess(p.host.handler, p.settings.values, h.log, c.Stdout, c.Stderr)
	h.keep = h.process.run
	h.invoker = handlerInvoker{h}
	if p.worker != nil {
		h.invoker = &languageInvoker{host: h, app: p.worker}
	}
	h.hard, h.giveUp = context.WithCancelCause(context.Background())
	h.stopping, h.beginStop = context.WithCancel(context.Background())
	config := workers.Config{
		Connections: h.connections(), HostID: p.hostID(), Logger: h.log, DrainTimeout: c.DrainTimeout,
		LockPeriod: p.host.lock, Heartbeat: hostrow.Every, About: p.about(),
	}
	if h.durable, err = h.openDurable(); err != nil {
		h.Close()
		return nil, err
	}
	if h.durable != nil {
		config.Durable = h.durable
	}
	h.app = workers.New(config)
	for _, m := range c.Middleware {
		h.app.Use(m)
	}
	for _, f := range p.functions {
		h.register(f)
	}
	return h, nil
}

// Close ends the processes of a host that was never run.
func (h *Host) Close() {
	if h.project.worker != nil {
		h.project.worker.Close()
	}
}

// connections are the connection strings of all bindings by their names.
func (h *Host) connections() map[string]string {
	all := map[string]string{}
	for _, f := range h.project.functions {
		for _, b := range append(append([]*binding{f.trigger}, f.in...), f.out...) {
			if b.connection != "" {
				all[b.connection], _ = h.project.settings.connection(b.connection)
			}
		}
	}
	all[connstr.DefaultConnection], _ = h.project.settings.connection(connstr.DefaultConnection)
	return all
}

// open returns the clients of a connection's account.
func (h *Host) open(connection string) (*workers.Storage, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s := h.accounts[connection]; s != nil {
		return s, nil
	}
	text, err := h.project.settings.connection(connection)
	if err != nil {
		return nil, err
	}
	s, err := workers.OpenStorage(text)
	if err != nil {
		return nil, fmt.Errorf("connection %q: %w", connection, err)
	}
	h.accounts[connection] = s
	return s, nil
}

// Warnings are about unknown members of the files, which are usually mistakes.
func (h *Host) Warnings() []string { return slices.Clone(h.project.warnings) }

// Notes are about members of the files that have an effect in Azure Functions and none here.
func (h *Host) Notes() []string { return slices.Clone(h.project.notes) }

// LocalPort is the port that local.settings.json of a folder asks for, or 0. Load reports what is wrong with the file.
func LocalPort(dir string) int {
	_, local := readSettings(&report{}, dir, nil)
	return local.port
}

// Describe lists the functions as they are to be shown when listening at an address.
func (h *Host) Describe(address string) []string {
	var lines []string
	for _, f := range h.project.functions {
		line := f.name + ": " + f.trigger.kind
		switch f.trigger.kind {
		case kindHTTPTrigger:
			line = fmt.Sprintf("%s: [%s] http://%s/%s", f.name, f.allMethods(), address, h.path(f))
			if h.keys != nil && f.authLevel != authAnonymous {
				line += " (key: " + f.authLevel + ")"
			}
		case kindEventTrigger:
			line += " http://" + address + webhookPath(extensionEvents, f.name)
		default:
			line = strings.TrimRight(line+" "+h.source(f), " ")
			if f.trigger.events {
				line += " http://" + address + webhookPath(extensionBlobs, blobFunctionPrefix+f.name)
			}
		}
		lines = append(lines, line)
	}
	for _, f := range h.project.disabled {
		if len(f.errs) > 0 {
			lines = append(lines, f.name+": cannot run: "+errors.Join(f.errs...).Error())
			continue
		}
		lines = append(lines, f.name+": disabled")
	}
	return lines
}

// allMethods lists the methods of an HTTP trigger.
func (f *function) allMethods() string {
	if len(f.methods) == 0 {
		return "any method"
	}
	return strings.Join(f.methods, ",")
}

// path is an HTTP function's route below the prefix.
func (h *Host) path(f *function) string {
	source := strings.TrimPrefix(f.route.source, "/")
	if h.project.host.http.prefix == "" {
		return source
	}
	return h.project.host.http.prefix + "/" + source
}

// Run may be called once. It starts the handler, and serves HTTP on l and the other triggers until ctx is done; then it
// drains. It closes l. It returns an error if the handler cannot be started, or if an invocation had to be given up.
func (h *Host) Run(ctx context.Context, l net.Listener) error {
	h.began = time.Now()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	if _, ok := h.project.settings.get("WEBSITE_HOSTNAME"); !ok {
		h.project.settings.set("WEBSITE_HOSTNAME", "localhost:"+port)
	}
	h.process.environ = h.project.settings.values // A language worker has its environment since Load.
	h.origin = "http://localhost:" + port
	h.past.mu.Lock()
	h.past.origin = h.origin
	h.past.mu.Unlock()

	if h.messages {
		stop, err := h.durable.Listen()
		if err != nil {
			return errors.Join(fmt.Errorf("the endpoint of durable clients: %w", err), l.Close())
		}
		defer stop()
	}
	// The server of the storage services: it refuses requests with two lengths, which a proxy may have read otherwise.
	server := httpserver.New(h.handler(), h.log, time.Minute)
	// The process of the app outlives ctx: the invocations that are drained at the stop need it.
	running, stopProcess := context.WithCancel(context.WithoutCancel(ctx))
	defer stopProcess()
	defer h.giveUp(nil)
	ended := make(chan error, 1)
	go func() { ended <- h.invoker.run(running) }()
	h.warmUp()
	serving := make(chan error, 1)
	go func() { serving <- httpserver.Serve(server, l, httpserver.Options{}) }()

	var err error
	if h.storage {
		go h.warnUnreachable(running)
		err = h.app.Start(context.WithoutCancel(ctx))
	}
	processEnded := false
	if err == nil {
		select {
		case <-ctx.Done():
		case err = <-ended:
			processEnded = true
		case err = <-serving:
		}
	}
	// From here on, no invocation waits for another attempt by its retry policy.
	h.beginStop()
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), h.drainTimeout())
	defer cancel()
	if processEnded {
		cancel() // The handler has ended and cannot respond.
	}
	// Triggers and HTTP drain at the same time, so that the timeout bounds both together.
	var wg sync.WaitGroup
	var stopErr, shutErr error
	wg.Go(func() { stopErr = h.app.Stop(drain) })
	wg.Go(func() {
		if shutErr = server.Shutdown(drain); shutErr != nil {
			shutErr = errors.Join(fmt.Errorf("HTTP invocations were interrupted: %w", shutErr), server.Close())
		}
		// What still runs at the end of the time is cancelled, so that Wait returns.
		stop := context.AfterFunc(drain, func() { h.giveUp(workers.ErrStopping) })
		h.calls.Wait()
		stop()
	})
	wg.Wait()
	stopProcess()
	if !processEnded {
		err = errors.Join(err, <-ended)
	} else {
		// The end of the process, which err says, is the reason of what was interrupted.
		shutErr = nil
	}
	h.client.CloseIdleConnections()
	h.worker.CloseIdleConnections()
	return errors.Join(err, stopErr, shutErr)
}

// warnUnreachable logs a warning if no server listens at a local storage account, the most common mistake.
func (h *Host) warnUnreachable(ctx context.Context) {
	warned := map[string]bool{}
	for name, text := range h.connections() {
		account, err := connstr.Parse(text)
		if err != nil || !account.Local() {
			continue
		}
		for _, endpoint := range []string{account.BlobEndpoint, account.QueueEndpoint} {
			u, err := url.Parse(endpoint)
			if err != nil || u.Port() == "" || warned[u.Host] {
				continue
			}
			warned[u.Host] = true
			c, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", u.Host)
			if err != nil {
				h.log.Warn("no server listens at the storage account; start one with `lazuli` in another terminal, or this "+
					"with --storage: triggers wait for it", "connection", name, "address", u.Host)
				return
			}
			_ = c.Close()
		}
	}
}

func (h *Host) drainTimeout() time.Duration {
	if h.config.DrainTimeout > 0 {
		return h.config.DrainTimeout
	}
	return 30 * time.Second
}

// App is the runtime of the functions with storage triggers: for its counters, metrics and live state. It is started
// and stopped by Run.
func (h *Host) App() *workers.App { return h.app }
