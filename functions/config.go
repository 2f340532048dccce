package functions

import (
	"io"
	"log/slog"
	"time"

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
