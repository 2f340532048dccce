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

	"github.com/lazuli-storage/lazuli/workers"
)

const hostFileName = "host.json"

// hostFile is host.json. https://learn.microsoft.com/azure/azure-functions/functions-host-json
type hostFile struct {
	runtime   string // of an app without a custom handler: "python"
	handler   command
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

// command describes how the handler is started.
type command struct {
	path      string
	arguments []string
	dir       string
	port      int // 0: a free one each time
}

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
func readHostFile(r *report, dir string, s *settings, languages LanguageWorkers) (*hostFile, error) {
	file, err := readSection(r, filepath.Join(dir, hostFileName), hostFileName)
	if err != nil {
		return nil, err
	}
	// Before anything is read: settings such as AzureFunctionsJobHost__extensions__... replace members of the file.
	file.override(s)
	h := &hostFile{}
	switch v := file.text("version", ""); {
	case v == "":
		file.fail("version", "is missing; want \"2.0\"")
	case v != "2.0":
		file.fail("version", "is %q, want \"2.0\" (of the file's schema, whatever version the Functions runtime has)", v)
	}
	mcp := false
	if file.has("configurationProfile") {
		mcp = file.choice("configurationProfile", "default", "default", "mcp-custom-handler") == "mcp-custom-handler"
	}
	h.readHandler(file, dir, s, mcp, languages)
	h.readTimeout(file)
	h.retry = readRetry(file.object("retry"))
	if file.has("functions") {
		// Never nil here: an empty list means no function, and a missing one all.
		h.functions = append([]string{}, file.texts("functions")...)
	}
	h.readExtensions(file.object("extensions"), s, mcp)
	h.readLogging(file.object("logging"))
	h.lock = 0
	if singleton := file.object("singleton"); singleton != nil {
		h.lock = singleton.duration("listenerLockPeriod", 0, 15*time.Second, time.Minute)
		singleton.noEffect("instances ask for a free lock every third of its period, without an end",
			"lockPeriod", "lockAcquisitionTimeout", "lockAcquisitionPollingInterval", "listenerLockRecoveryPollingInterval")
		singleton.done()
	}
	if c := file.object("concurrency"); c != nil {
		c.noEffect("the limits are those of extensions.queues and extensions.blobs", "dynamicConcurrencyEnabled",
			"snapshotPersistenceEnabled")
		c.done()
	}
	file.noEffect("all files of the folder are watched, with --watch", "watchDirectories", "watchFiles")
	// Their members mean the same below extensions, so that an app that has them expects them to work.
	file.refuse("this is the layout of version 1; move it below extensions", "queues", "http", "serviceBus", "eventHub",
		"blobs")
	file.noEffect("it configures a service of Azure", "applicationInsights", "aggregator", "healthMonitor",
		"telemetryMode")
	file.noEffect("bindings are built in", "extensionBundle")
	file.noEffect("it concerns other languages", "managedDependency", "managedDependencies", "isDefaultHostConfig",
		"sendCanceledInvocationsToWorker", "metadataProviderTimeout")
	// Reports members that nothing above has named.
	file.done()
	return h, nil
}

func (h *hostFile) readTimeout(file *section) {
	h.timeout = 30 * time.Minute
	if v, _ := file.scalar("functionTimeout"); v == "-1" {
		h.timeout = 0
		return
	}
	h.timeout = file.duration("functionTimeout", h.timeout, time.Second, 10*365*24*time.Hour)
}

// readHandler reads customHandler, or its predecessor httpWorker.
func (h *hostFile) readHandler(file *section, dir string, s *settings, mcp bool, languages LanguageWorkers) {
	name := "customHandler"
	handler, old := file.object("customHandler"), file.object("httpWorker")
	switch {
	case handler == nil && old == nil:
		// Without a handler the language decides, and a worker must exist for it. Found here, so that the error comes with
		// the others.
		runtime, language, evidence := languageOf(dir, s)
		if runtime == "" || languages == nil {
			file.fail("customHandler", "is missing: %s", noHandler(language, evidence, nil))
		} else if err := languages.Find(WorkerSettings{Runtime: runtime, Dir: dir, Environ: s.values}); err != nil {
			file.report.fail("%s", noHandler(language, evidence, err))
		}
		h.runtime = runtime
		return
	case handler == nil:
		name, handler, h.forward = "httpWorker", old, forwardToName
	default:
		if old != nil {
			file.report.warn("%s has no effect together with customHandler", file.at("httpWorker"))
		}
		if handler.boolean("enableForwardingHttpRequest", false) {
			h.forward = forwardRequest
		}
		if handler.boolean("enableProxyingHttpRequest", mcp) {
			h.forward = forwardRequest
		}
		h.handler.port = handler.integer("port", 0, 1, 65535)
		h.readRoutes(handler.object("http"), mcp)
		// The only type there is: another one is refused.
		handler.choice("type", "http", "http")
	}
	description := handler.object("description")
	if description == nil {
		handler.fail("description", "is missing")
		handler.done()
		return
	}
	expand := func(text string) string {
		text, _ = s.expand(text, true)
		return text
	}
	c := &h.handler
	c.dir = dir
	if w := expand(description.text("workingDirectory", "")); w != "" {
		if !filepath.IsAbs(w) {
			w = filepath.Join(dir, w)
		}
		// A folder that is missing would show as an exec error that names the program and not the folder.
		if info, err := os.Stat(w); err != nil || !info.IsDir() {
			description.fail("workingDirectory", "the folder %s does not exist", w)
		}
		c.dir = w
	}
	c.path = expand(description.text("defaultExecutablePath", ""))
	if c.path == "" {
		description.fail("defaultExecutablePath", "is missing or empty in %s.description", name)
	} else {
		base := expand(description.text("workerDirectory", ""))
		if !filepath.IsAbs(base) {
			base = filepath.Join(dir, base)
		}
		// Relative to the folder of the worker, and not to the working directory.
		c.path = executable(base, c.path)
	}
	// The order of the Functions host: arguments, the worker's path, the worker's arguments.
	list := description.texts("arguments")
	if worker := description.text("defaultWorkerPath", ""); worker != "" {
		list = append(list, worker)
	}
	for _, a := range append(list, description.texts("workerArguments")...) {
		c.arguments = append(c.arguments, expand(a))
	}
	description.noEffect("the handler determines this", "language", "extensions", "useStdErrorStreamForErrorsOnly")
	description.done()
	handler.done()
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
func (h *hostFile) readRoutes(s *section, mcp bool) {
	if s == nil {
		if mcp {
			h.routes = []hostRoute{{"{*route}", authFunction}}
		}
		return
	}
	level := readAuthLevel(s, "defaultAuthorizationLevel", authFunction)
	for _, o := range s.objects("routes") {
		own := readAuthLevel(o, "authorizationLevel", level)
		if route := o.text("route", ""); route != "" {
			h.routes = append(h.routes, hostRoute{route, own})
		} else {
			o.fail("route", "is missing")
		}
		o.done()
	}
	s.done()
}

func (h *hostFile) readExtensions(s *section, app *settings, mcp bool) {
	queues := s.object("queues")
	h.queues = queueSettings{
		batchSize: queues.integer("batchSize", 16, 1, maxBatch),
		// -1 is not set: the default is half of the batch, which package workers knows.
		threshold:  queues.integer("newBatchThreshold", -1, 0, 10_000),
		maxDequeue: queues.integer("maxDequeueCount", 5, 1, 1_000_000),
		visibility: queues.duration("visibilityTimeout", 0, 0, 7*24*time.Hour),
		maxPolling: queues.duration("maxPollingInterval", 0, 100*time.Millisecond, 24*time.Hour),
		encoding:   workers.Encoding(queues.choice("messageEncoding", "base64", "base64", "none")),
	}
	queues.done()

	blobs := s.object("blobs")
	h.blobs = blobSettings{
		maxParallel:     blobs.integer("maxDegreeOfParallelism", 8*runtime.GOMAXPROCS(0), 1, 10_000),
		poisonThreshold: blobs.integer("poisonBlobThreshold", 5, 1, 1_000_000),
	}
	blobs.done()

	web := s.object("http")
	prefix := "api"
	if mcp {
		prefix = ""
	}
	h.http = httpSettings{
		prefix:         strings.Trim(web.text("routePrefix", prefix), "/"),
		maxConcurrent:  web.integer("maxConcurrentRequests", defaultConcurrent, -1, 1_000_000),
		maxOutstanding: web.integer("maxOutstandingRequests", defaultOutstanding, -1, 1_000_000),
		headers:        map[string]string{},
	}
	if web != nil {
		web.noEffect("it looks at counters of App Service, which a developer's machine lacks", "dynamicThrottlesEnabled")
		web.noEffect("the header is for responses over HTTPS, and the host serves HTTP", "hsts")
		if headers := web.object("customHeaders"); headers != nil {
			for _, m := range headers.members {
				h.http.headers[m.name], _ = headers.scalar(m.name)
			}
		}
		web.done()
	}
	h.durable = readDurable(s.object("durableTask"), app)
	if s != nil {
		for _, m := range s.members {
			// A note and no error: extensions of other services are common in host.json, and no function here can use them.
			if !m.known {
				s.noEffect("no function can use that extension", m.name)
			}
		}
	}
}

func (h *hostFile) readLogging(s *section) {
	h.levels = logLevels{}
	if s == nil {
		return
	}
	names := map[string]slog.Level{
		"trace": levelTrace, "debug": slog.LevelDebug, "information": slog.LevelInfo, "warning": slog.LevelWarn,
		"error": slog.LevelError, "critical": levelCritical, "none": levelNone,
	}
	if levels := s.object("logLevel"); levels != nil {
		for _, m := range levels.members {
			text, _ := levels.scalar(m.name)
			level, ok := names[strings.ToLower(text)]
			if !ok {
				levels.fail(m.name, "%q is not one of %s", text, strings.Join(slices.Sorted(maps.Keys(names)), ", "))
			}
			h.levels[strings.ToLower(m.name)] = level
		}
	}
	s.noEffect("everything is logged to standard error", "applicationInsights", "fileLoggingMode", "console", "debug")
	s.done()
}

// retryPolicy is a retry of the host's own, within one instance and without a trace in storage.
// https://learn.microsoft.com/azure/azure-functions/functions-bindings-error-pages#retry-policies
type retryPolicy struct {
	max         int // -1: no limit
	first, most time.Duration
	exponential bool
}

func readRetry(s *section) *retryPolicy {
	if s == nil {
		return nil
	}
	p := &retryPolicy{}
	const longest = 7 * 24 * time.Hour
	if !s.has("strategy") {
		s.fail("strategy", "is missing; want fixedDelay or exponentialBackoff")
		return nil
	}
	p.exponential = s.choice("strategy", "fixedDelay", "fixedDelay", "exponentialBackoff") == "exponentialBackoff"
	if !s.has("maxRetryCount") {
		s.fail("maxRetryCount", "is missing")
	}
	p.max = s.integer("maxRetryCount", 0, -1, 1_000_000)
	required := []string{"delayInterval"}
	if p.exponential {
		required = []string{"minimumInterval", "maximumInterval"}
		p.first = s.duration("minimumInterval", 0, 0, longest)
		p.most = s.duration("maximumInterval", longest, 0, longest)
		if p.first > p.most {
			s.fail("minimumInterval", "is longer than maximumInterval")
		}
	} else {
		p.first = s.duration("delayInterval", 0, 0, longest)
		p.most = p.first
	}
	for _, name := range required {
		if !s.has(name) {
			s.fail(name, "is missing")
		}
	}
	s.done()
	return p
}

// delay is the time to wait after an attempt, counted from 1.
func (p *retryPolicy) delay(attempt int) time.Duration {
	if !p.exponential {
		return p.first
	}
	return workers.Exponential(p.first, p.most).Delay(int64(attempt))
}
