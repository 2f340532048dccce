package workers

import (
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/lazuli-storage/lazuli/internal/sdk/connstr"
	"github.com/lazuli-storage/lazuli/workers/engine"
	"github.com/lazuli-storage/lazuli/workers/internal/calls"
)

// ConnectionFromEnvironment returns the connection string in the first of the environment variables
// LAZULI_CONNECTION_STRING, AzureWebJobsStorage and AZURE_STORAGE_CONNECTION_STRING that is set, or
// UseDevelopmentStorage=true. The verbs of the lazuli command use the same order.
func ConnectionFromEnvironment() string {
	text, _ := connstr.FromEnvironment(os.Getenv)
	return text
}

// Config configures an app. The zero value connects to the account of ConnectionFromEnvironment.
type Config struct {
	// ConnectionString is the default connection. Empty means ConnectionFromEnvironment.
	ConnectionString string
	// Storage, if set, is used instead of ConnectionString, for clients with another transport or credential.
	Storage *Storage
	// Server, if set, is used instead of ConnectionString: a server in this process, which is reached without a
	// connection. See OpenServer.
	Server Server
	// Connections maps names for WithConnection to connection strings. Other names are looked up as environment variables,
	// as in Azure Functions.
	Connections map[string]string
	// HostID identifies the app within the storage account. Instances with the same HostID share the locks, records and
	// queues of timers, blob triggers and table triggers, and so divide the work; different apps on one account need
	// different ones. At most 100 characters: letters, digits, '-', '_' and '.'. The default is derived from the import
	// path of the main package, or from the executable's name where the build has no import path (go run FILE). Start logs
	// it.
	HostID string
	// Logger receives the runtime's log records; nil means slog.Default(). Records about one call have the function's name
	// and the invocation ID. For the records of handlers see NewLogHandler.
	Logger *slog.Logger
	// Defaults apply to every function before its own options.
	Defaults []Option
	// DrainTimeout is the time that Run waits for running handlers after its context is done, before it cancels their
	// contexts. Default 30 s; a negative value cancels them at once.
	DrainTimeout time.Duration
	// StuckTimeout is the time that a handler may take to return after its context was cancelled. After that, the runtime
	// logs a dump of all goroutines and abandons the call. Default 10 s.
	StuckTimeout time.Duration
	// LockPeriod is the duration of the blob leases by which one instance runs a timer or a scan, 15 to 60 s. After an
	// instance dies, another one takes over within four thirds of it. Default 15 s. (Azure Functions: 60 s.)
	LockPeriod time.Duration
	// Durable runs the app's orchestrations and activities: durable.NewEngine of workers/durable. Without it an app cannot
	// have any.
	Durable engine.Durable[Config]
	// Heartbeat is the interval at which the app writes what it runs to the table lazuliworkers of its account, for the
	// dashboard and `lazuli workers ls`; in it, the app reads twice which functions are to be paused. 0 means 10 s for
	// Run, and none for Start; a negative value means none. It is at least a second.
	Heartbeat time.Duration
	// About names the program and its version in that row. The default is of the build: module, version and Go.
	About string
	// KeepGC leaves the garbage collector's settings as they are. Otherwise Run lets 40 MiB of garbage, or 30 % of the
	// live data, accumulate between two collections in place of Go's 100 %, since most of what a worker allocates lives
	// for one message. The environment variable GOGC has the same effect as KeepGC, and GOMEMLIMIT limits the memory with
	// either.
	KeepGC bool
	// Clock is the clock for leases, timers and back-off; nil means the system clock.
	Clock Clock
}

func (c Config) withDefaults() Config {
	if c.HostID == "" {
		c.HostID = defaultHostID()
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.DrainTimeout == 0 {
		c.DrainTimeout = 30 * time.Second
	}
	if c.StuckTimeout <= 0 {
		c.StuckTimeout = 10 * time.Second
	}
	if c.LockPeriod == 0 {
		c.LockPeriod = 15 * time.Second
	}
	if c.Clock == nil {
		c.Clock = calls.SystemClock{}
	}
	return c
}

// connect opens the storage account behind a connection's name.
func (c Config) connect(name string) (*Storage, error) {
	s, known := c.Connections[name]
	open := OpenStorage
	// The name that the program has given comes first; the default connection has more ways to be given than others.
	switch {
	case known:
	case name == connstr.DefaultConnection && c.Storage != nil:
		return c.Storage, nil
	case name == connstr.DefaultConnection && c.Server != nil:
		open = func(string, ...StorageOption) (*Storage, error) { return OpenServer(c.Server) }
	case name == connstr.DefaultConnection && c.ConnectionString != "":
		s = c.ConnectionString
	case name == connstr.DefaultConnection:
		s = ConnectionFromEnvironment()
	default:
		if s = os.Getenv(name); s == "" {
			return nil, fmt.Errorf("workers: connection %q is neither in Config.Connections nor an environment variable", name)
		}
	}
	storage, err := open(s)
	if err != nil {
		return nil, fmt.Errorf("workers: connection %q: %w", name, err)
	}
	return storage, nil
}
