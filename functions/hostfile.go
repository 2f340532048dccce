package functions

import (
	"context"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/functions/internal/handlerproc"
	"github.com/lazuli-storage/lazuli/functions/internal/jsonfile"
	"github.com/lazuli-storage/lazuli/functions/internal/keys"
	"github.com/lazuli-storage/lazuli/functions/internal/settings"
	"github.com/lazuli-storage/lazuli/workers"
)

const hostFileName = "host.json"

// hostFile is host.json. https://learn.microsoft.com/azure/azure-functions/functions-host-json
type hostFile struct {
	runtime   string // of an app without a custom handler: "python"
	handler   handlerproc.Command
	forward   forwarding
	routes    []hostRoute   // of customHandler.http: functions that have no folder
	timeout   time.Duration // of one invocation; 0: none
	retry     *retryPolicy  // for functions without their own
	functions []string      // if not nil, only these run

	queues  queueSettings
	blobs   blobSettings
	http    httpSettings
	durable DurableSettings
	levels  logLevels
	lock    time.Duration // of timers and blob scans
}

// hostRoute is a function that is a route of host.json.
type hostRoute struct{ route, authLevel string }

// forwarding determines how a handler receives the requests of a function that has only an HTTP trigger and an HTTP
// output.
type forwarding int

const (
	// forwardNothing: an invocation in JSON, as for every other function.
	forwardNothing forwarding = iota
	// forwardRequest: the request itself, at its own path.
	forwardRequest
	// forwardToName: the request itself, at the path /<function>, as with the older section httpWorker.
	forwardToName
)

type queueSettings struct {
	batchSize, threshold, maxDequeue int
	visibility, maxPolling           time.Duration // maxPolling 0: the runtime's default
	encoding                         workers.Encoding
}

type blobSettings struct{ maxParallel, poisonThreshold int }

type httpSettings struct {
	prefix                        string // without slashes
	maxConcurrent, maxOutstanding int    // -1: no limit
	headers                       map[string]string
}

// The limits of requests to functions without those of host.json. Azure has none in its larger plans; here a program
// that asks again and again is not to use up the memory of a developer's machine.
const (
	defaultConcurrent  = 2048
	defaultOutstanding = 8192 // with those that wait
)

// logLevels are the log levels in host.json, by category.
type logLevels map[string]slog.Level

const (
	levelTrace    = slog.LevelDebug - 4
	levelCritical = slog.LevelError + 4
	levelNone     = slog.Level(100)
)

// LevelName returns the name of a level of a record.
func LevelName(level slog.Level) string {
	switch {
	case level < slog.LevelDebug:
		return "TRACE"
	case level >= levelCritical:
		return "CRITICAL"
	}
	return level.String()
}

// enabled reports whether a record of that level is to be logged for a category, such as "Function.Order.User": the
// longest name that is the category or one of its parents decides.
func (l logLevels) enabled(category string, level slog.Level) bool {
	for name := category; ; {
		if least, ok := l[strings.ToLower(name)]; ok {
			return level >= least
		}
		i := strings.LastIndexByte(name, '.')
		if i < 0 {
			break
		}
		name = name[:i]
	}
	if least, ok := l["default"]; ok {
		return level >= least
	}
	return level >= slog.LevelInfo
}

// hostCategory is the category of the host's own records.
const hostCategory = "host"

// leveled passes on the records of the host itself that host.json wants.
type leveled struct {
	slog.Handler
	levels logLevels
}

// Enabled implements slog.Handler.
func (l leveled) Enabled(ctx context.Context, level slog.Level) bool {
	return l.levels.enabled(hostCategory, level) && l.Handler.Enabled(ctx, level)
}

// WithAttrs implements slog.Handler.
func (l leveled) WithAttrs(attrs []slog.Attr) slog.Handler {
	return leveled{l.Handler.WithAttrs(attrs), l.levels}
}

// WithGroup implements slog.Handler.
func (l leveled) WithGroup(name string) slog.Handler {
	return leveled{l.Handler.WithGroup(name), l.levels}
}

// least returns the least level that is logged for a category.
func (l logLevels) least(category string) slog.Level {
	for _, level := range []slog.Level{levelTrace, slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError,
		levelCritical} {
		if l.enabled(category, level) {
			return level
		}
	}
	return levelNone
}

// maxBatch is the most messages that one request can fetch.
const maxBatch = 32

// readHostFile reads host.json, which must exist, and name a custom handler if there is no worker for the language.
func readHostFile(r *jsonfile.Report, dir string, s *settings.Settings, languages LanguageWorkers) (*hostFile, error) {
	file, err := jsonfile.Read(r, filepath.Join(dir, hostFileName), hostFileName)
	if err != nil {
		return nil, err
	}
	// Before anything is read: settings such as AzureFunctionsJobHost__extensions__... replace members of the file.
	s.Override(file)
	h := &hostFile{}
	switch v := file.Text("version", ""); {
	case v == "":
		file.Fail("version", "is missing; want \"2.0\"")
	case v != "2.0":
		file.Fail("version", "is %q, want \"2.0\" (of the file's schema, whatever version the Functions runtime has)", v)
	}
	mcp := false
	if file.Has("configurationProfile") {
		mcp = file.Choice("configurationProfile", "default", "default", "mcp-custom-handler") == "mcp-custom-handler"
	}
	h.readHandler(file, dir, s, mcp, languages)
	h.readTimeout(file)
	h.retry = readRetry(file.Object("retry"))
	if file.Has("functions") {
		// Never nil here: an empty list means no function, and a missing one all.
		h.functions = append([]string{}, file.Texts("functions")...)
	}
	h.readExtensions(file.Object("extensions"), s, mcp)
	h.readLogging(file.Object("logging"))
	h.lock = 0
	if singleton := file.Object("singleton"); singleton != nil {
		h.lock = singleton.Duration("listenerLockPeriod", 0, 15*time.Second, time.Minute)
		singleton.NoEffect("instances ask for a free lock every third of its period, without an end",
			"lockPeriod", "lockAcquisitionTimeout", "lockAcquisitionPollingInterval", "listenerLockRecoveryPollingInterval")
		singleton.Done()
	}
	if c := file.Object("concurrency"); c != nil {
		c.NoEffect("extensions.queues and extensions.blobs have the limits", "dynamicConcurrencyEnabled",
			"snapshotPersistenceEnabled")
		c.Done()
	}
	file.NoEffect("all files of the folder are watched, with --watch", "watchDirectories", "watchFiles")
	// Their members mean the same below extensions, so that an app that has them expects them to work.
	file.Refuse("this is the layout of version 1; move it below extensions", "queues", "http", "serviceBus", "eventHub",
		"blobs")
	file.NoEffect("it configures a service of Azure", "applicationInsights", "aggregator", "healthMonitor",
		"telemetryMode")
	file.NoEffect("bindings are built in", "extensionBundle")
	file.NoEffect("it concerns other languages", "managedDependency", "managedDependencies", "isDefaultHostConfig",
		"sendCanceledInvocationsToWorker", "metadataProviderTimeout")
	// Reports members that nothing above has named.
	file.Done()
	return h, nil
}

func (h *hostFile) readTimeout(file *jsonfile.Section) {
	h.timeout = 30 * time.Minute
	if v, _ := file.Scalar("functionTimeout"); v == "-1" {
		h.timeout = 0
		return
	}
	h.timeout = file.Duration("functionTimeout", h.timeout, time.Second, 10*365*24*time.Hour)
}

// readHandler reads customHandler, or its predecessor httpWorker.
func (h *hostFile) readHandler(file *jsonfile.Section, dir string, s *settings.Settings, mcp bool,
	languages LanguageWorkers) {
	name := "customHandler"
	handler, old := file.Object("customHandler"), file.Object("httpWorker")
	switch {
	case handler == nil && old == nil:
		// Without a handler the language decides, and a worker must exist for it. Found here, so that the error comes with
		// the others.
		runtime, language, evidence := languageOf(dir, s)
		if runtime == "" || languages == nil {
			file.Fail("customHandler", "is missing: %s", noHandler(language, evidence, nil))
		} else if err := languages.Find(WorkerSettings{Runtime: runtime, Dir: dir, Environ: s.Values}); err != nil {
			file.Report.Fail("%s", noHandler(language, evidence, err))
		}
		h.runtime = runtime
		return
	case handler == nil:
		name, handler, h.forward = "httpWorker", old, forwardToName
	default:
		if old != nil {
			file.Report.Warn("%s has no effect together with customHandler", file.At("httpWorker"))
		}
		if handler.Boolean("enableForwardingHttpRequest", false) {
			h.forward = forwardRequest
		}
		if handler.Boolean("enableProxyingHttpRequest", mcp) {
			h.forward = forwardRequest
		}
		h.handler.Port = handler.Integer("port", 0, 1, 65535)
		h.readRoutes(handler.Object("http"), mcp)
		// The only type there is: another one is refused.
		handler.Choice("type", "http", "http")
	}
	description := handler.Object("description")
	if description == nil {
		handler.Fail("description", "is missing")
		handler.Done()
		return
	}
	expand := func(text string) string {
		text, _ = s.Expand(text, true)
		return text
	}
	c := &h.handler
	c.Dir = dir
	if w := expand(description.Text("workingDirectory", "")); w != "" {
		if !filepath.IsAbs(w) {
			w = filepath.Join(dir, w)
		}
		// A folder that is missing would show as an exec error that names the program and not the folder.
		if info, err := os.Stat(w); err != nil || !info.IsDir() {
			description.Fail("workingDirectory", "the folder %s does not exist", w)
		}
		c.Dir = w
	}
	c.Path = expand(description.Text("defaultExecutablePath", ""))
	if c.Path == "" {
		description.Fail("defaultExecutablePath", "is missing or empty in %s.description", name)
	} else {
		base := expand(description.Text("workerDirectory", ""))
		if !filepath.IsAbs(base) {
			base = filepath.Join(dir, base)
		}
		// Relative to the folder of the worker, and not to the working directory.
		c.Path = executable(base, c.Path)
	}
	// The order of the Functions host: arguments, the worker's path, the worker's arguments.
	list := description.Texts("arguments")
	if worker := description.Text("defaultWorkerPath", ""); worker != "" {
		list = append(list, worker)
	}
	for _, a := range append(list, description.Texts("workerArguments")...) {
		c.Arguments = append(c.Arguments, expand(a))
	}
	description.NoEffect("the handler determines this", "language", "extensions", "useStdErrorStreamForErrorsOnly")
	description.Done()
	handler.Done()
}

// executable makes a path relative to the folder absolute if the file is there; otherwise it is left to be looked for
// on the system's path.
func executable(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	full := filepath.Join(dir, filepath.FromSlash(path))
	if info, err := os.Stat(full); err == nil && !info.IsDir() {
		return full
	}
	return path
}

// readRoutes reads customHandler.http: each route is a function with HTTP in and out.
func (h *hostFile) readRoutes(s *jsonfile.Section, mcp bool) {
	if s == nil {
		if mcp {
			h.routes = []hostRoute{{"{*route}", keys.ForFunction}}
		}
		return
	}
	level := readAuthLevel(s, "defaultAuthorizationLevel", keys.ForFunction)
	for _, o := range s.Objects("routes") {
		own := readAuthLevel(o, "authorizationLevel", level)
		if route := o.Text("route", ""); route != "" {
			h.routes = append(h.routes, hostRoute{route, own})
		} else {
			o.Fail("route", "is missing")
		}
		o.Done()
	}
	s.Done()
}

func (h *hostFile) readExtensions(s *jsonfile.Section, app *settings.Settings, mcp bool) {
	queues := s.Object("queues")
	h.queues = queueSettings{
		batchSize: queues.Integer("batchSize", 16, 1, maxBatch),
		// -1 is not set: the default is half of the batch, which package workers knows.
		threshold:  queues.Integer("newBatchThreshold", -1, 0, 10_000),
		maxDequeue: queues.Integer("maxDequeueCount", 5, 1, 1_000_000),
		visibility: queues.Duration("visibilityTimeout", 0, 0, 7*24*time.Hour),
		maxPolling: queues.Duration("maxPollingInterval", 0, 100*time.Millisecond, 24*time.Hour),
		encoding:   workers.Encoding(queues.Choice("messageEncoding", "base64", "base64", "none")),
	}
	queues.Done()

	blobs := s.Object("blobs")
	h.blobs = blobSettings{
		maxParallel:     blobs.Integer("maxDegreeOfParallelism", 8*runtime.GOMAXPROCS(0), 1, 10_000),
		poisonThreshold: blobs.Integer("poisonBlobThreshold", 5, 1, 1_000_000),
	}
	blobs.Done()

	web := s.Object("http")
	prefix := "api"
	if mcp {
		prefix = ""
	}
	h.http = httpSettings{
		prefix:         strings.Trim(web.Text("routePrefix", prefix), "/"),
		maxConcurrent:  web.Integer("maxConcurrentRequests", defaultConcurrent, -1, 1_000_000),
		maxOutstanding: web.Integer("maxOutstandingRequests", defaultOutstanding, -1, 1_000_000),
		headers:        map[string]string{},
	}
	if web != nil {
		web.NoEffect("it looks at counters of App Service, which a developer's machine lacks", "dynamicThrottlesEnabled")
		web.NoEffect("the header is for responses over HTTPS, and the host serves HTTP", "hsts")
		if headers := web.Object("customHeaders"); headers != nil {
			for _, m := range headers.Members {
				h.http.headers[m.Name], _ = headers.Scalar(m.Name)
			}
		}
		web.Done()
	}
	h.durable = readDurable(s.Object("durableTask"), app)
	if s != nil {
		for _, m := range s.Members {
			// A note and no error: extensions of other services are common in host.json, and no function here can use them.
			if !m.Known {
				s.NoEffect("no function can use that extension", m.Name)
			}
		}
	}
}

func (h *hostFile) readLogging(s *jsonfile.Section) {
	h.levels = logLevels{}
	if s == nil {
		return
	}
	names := map[string]slog.Level{
		"trace": levelTrace, "debug": slog.LevelDebug, "information": slog.LevelInfo, "warning": slog.LevelWarn,
		"error": slog.LevelError, "critical": levelCritical, "none": levelNone,
	}
	if levels := s.Object("logLevel"); levels != nil {
		for _, m := range levels.Members {
			text, _ := levels.Scalar(m.Name)
			level, ok := names[strings.ToLower(text)]
			if !ok {
				levels.Fail(m.Name, "%q is not one of %s", text, strings.Join(slices.Sorted(maps.Keys(names)), ", "))
			}
			h.levels[strings.ToLower(m.Name)] = level
		}
	}
	s.NoEffect("everything is logged to standard error", "applicationInsights", "fileLoggingMode", "console", "debug")
	s.Done()
}

// retryPolicy is a retry of the host's own, within one instance and without a trace in storage.
// https://learn.microsoft.com/azure/azure-functions/functions-bindings-error-pages#retry-policies
type retryPolicy struct {
	max         int // -1: no limit
	first, most time.Duration
	exponential bool
}

func readRetry(s *jsonfile.Section) *retryPolicy {
	if s == nil {
		return nil
	}
	// No member has a default: a forgotten one would repeat calls in a way that the app's author has not chosen.
	p := &retryPolicy{}
	const longest = 7 * 24 * time.Hour
	if !s.Has("strategy") {
		s.Fail("strategy", "is missing; want fixedDelay or exponentialBackoff")
		return nil
	}
	p.exponential = s.Choice("strategy", "fixedDelay", "fixedDelay", "exponentialBackoff") == "exponentialBackoff"
	if !s.Has("maxRetryCount") {
		s.Fail("maxRetryCount", "is missing")
	}
	p.max = s.Integer("maxRetryCount", 0, -1, 1_000_000)
	required := []string{"delayInterval"}
	if p.exponential {
		required = []string{"minimumInterval", "maximumInterval"}
		p.first = s.Duration("minimumInterval", 0, 0, longest)
		p.most = s.Duration("maximumInterval", longest, 0, longest)
		if p.first > p.most {
			s.Fail("minimumInterval", "is longer than maximumInterval")
		}
	} else {
		p.first = s.Duration("delayInterval", 0, 0, longest)
		p.most = p.first
	}
	for _, name := range required {
		if !s.Has(name) {
			s.Fail(name, "is missing")
		}
	}
	s.Done()
	return p
}

// delay is the time to wait after an attempt, counted from 1.
func (p *retryPolicy) delay(attempt int) time.Duration {
	if !p.exponential {
		return p.first
	}
	return workers.Exponential(p.first, p.most).Delay(int64(attempt))
}

// The runtimes all of whose workflows use messages, without durableRequiresGrpc in their bindings.
const (
	runtimeDotNet = "dotnet-isolated"
	runtimeJava   = "java"
)

// readAuthLevel reads an access level.
func readAuthLevel(o *jsonfile.Section, name, fallback string) string {
	return o.Choice(name, fallback, keys.Anonymous, "user", keys.ForFunction, keys.ForSystem, "admin")
}
