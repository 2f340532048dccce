package functions

import (
	"errors"
	"time"

	"github.com/lazuli-storage/lazuli/workers/status"
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

// Errors of Invocation and RunNow.
var (
	ErrNoFunction   = errors.New("no function has this name")
	ErrNoInvocation = errors.New("the invocation is not kept any more")
	ErrNotRunnable  = errors.New("the function cannot be run by hand")
)
