package functions

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/lazuli-storage/lazuli/functions/internal/jsonvalue"
	"github.com/lazuli-storage/lazuli/workers"
)

// LanguageWorkers runs function apps whose functions are not called over HTTP but in a worker process of their
// language. Package languageworker has one. It is an interface so that this package does not link gRPC.
type LanguageWorkers interface {
	// Find looks for the worker of an app, by Runtime, Dir and Environ alone. An error says what is missing.
	Find(s WorkerSettings) error
	// Open starts a worker for an app, and returns when the worker knows the app's functions.
	Open(ctx context.Context, s WorkerSettings) (WorkerApp, error)
}

// WorkerSettings are what a worker needs to know of an app.
type WorkerSettings struct {
	// Runtime is the FUNCTIONS_WORKER_RUNTIME, such as "python", "node", "dotnet-isolated" or "java".
	Runtime string
	// Dir is the app's folder, absolute.
	Dir string
	// Environ is the environment of the worker's process, as "name=value".
	Environ []string
	// Processes is the number of processes: FUNCTIONS_WORKER_PROCESS_COUNT.
	Processes int
	// Level is the least level that is logged of a category, such as "Function.Order.User" or "Worker".
	Level func(category string) slog.Level
	// Logger receives the records of the worker that belong to no invocation.
	Logger *slog.Logger
	// Stdout and Stderr receive the output of the processes.
	Stdout, Stderr io.Writer
}

// WorkerApp is one app in its workers.
type WorkerApp interface {
	// Functions are those that the worker has found in the app's code. Indexed is false if it does not look for
	// them: they are those with a function.json.
	Functions() (list []WorkerFunction, indexed bool)
	// TakesRequests reports whether the worker has an HTTP server, which gets the requests of HTTP triggers as they are:
	// Invoke calls Forward for them.
	TakesRequests() bool
	// Load tells the workers which functions will be invoked. It is called once, before Run.
	Load(functions []WorkerFunction)
	// Run keeps the processes running until ctx is done, and ends them. It returns an error if they do not come up.
	Run(ctx context.Context) error
	// Invoke calls a function. It waits until a worker is ready. An error of FunctionError means that
	// the function has failed, other ones that the worker has.
	Invoke(ctx context.Context, call *Invocation) (*Result, error)
	// Processes asks the processes that take invocations for their state. It takes a second at most.
	Processes(ctx context.Context) []WorkerProcess
	// Close ends the processes of an app that is not run.
	Close()
}

// WorkerProcess is the state of a language worker's process.
type WorkerProcess struct {
	PID int `json:"pid"`
	// Running counts the invocations that it has.
	Running int `json:"running"`
	// Milliseconds is the time that it took to answer a question; nil if it has not within a second, because code that
	// does not wait occupies it, or cannot be asked.
	Milliseconds *float64 `json:"milliseconds"`
}

// WorkerFunction is a function as the worker knows it.
type WorkerFunction struct {
	Name string
	// ID identifies the function in invocations. Empty for a function.json.
	ID string
	// Directory is the function's folder, absolute; ScriptFile the absolute path of its code, and EntryPoint the name in
	// it, both of which may be empty.
	Directory, ScriptFile, EntryPoint string
	// Bindings are the elements of "bindings" of a function.json.
	Bindings []json.RawMessage
	// Retry is the member "retry" of a function.json, nil without one.
	Retry json.RawMessage
}

// Invocation is one call of a function in a language worker.
type Invocation struct {
	// ID is a GUID.
	ID string
	// Function is the function's name.
	Function string
	// Inputs are the values of the trigger, and then of the input bindings in their order: functions may take them by
	// position. Metadata are the trigger's metadata. A value is nil, a string, []byte, time.Time, *HTTPRequest,
	// *BlobReference, *QueueReference, or anything that encoding/json writes.
	Inputs   []Input
	Metadata map[string]any
	// Retry is the attempt under a retry policy; nil without one.
	Retry *RetryContext
	Trace workers.TraceContext
	// Log takes the records of the invocation: of the function's code if user is true, otherwise of the worker.
	Log func(user bool, level slog.Level, message string)
	// Forward is called, at most once and in a goroutine of its own, if the worker takes the HTTP request itself: address
	// is that of its HTTP server, and returned receives the function's error, or nil, when it has returned, after which
	// there is a response soon or never. It returns an error if the response was interrupted, or if ctx was done before
	// its end. Nil for other triggers. Invoke returns after it.
	Forward func(ctx context.Context, address string, returned <-chan error) error
	// Gone is closed when the client of an HTTP trigger has disconnected: the worker is asked to cancel the invocation.
	// Nil for other triggers.
	Gone <-chan struct{}
}

// Input is the value of a trigger or of an input binding.
type Input struct {
	Name  string // of the binding
	Value any
}

// BlobReference is the value of a binding of which the worker makes a client of the SDK.
type BlobReference struct {
	Connection string // the name of a setting
	Container  string `json:"ContainerName"`
	Blob       string `json:"BlobName"` // empty: the container
}

// QueueReference is the value of a queue trigger of which the worker makes a QueueMessage of the SDK.
// https://github.com/Azure/azure-functions-dotnet-worker (QueueMessageJsonConverter)
type QueueReference struct {
	MessageID    string `json:"MessageId"`
	PopReceipt   string
	MessageText  string // decoded
	DequeueCount int64
	// Times in ISO 8601; nil if the service did not tell them.
	NextVisibleOn, InsertedOn, ExpiresOn *time.Time
}

// HTTPRequest is the value of an HTTP trigger.
type HTTPRequest struct {
	Method, URL string
	Header      http.Header
	// Query are the parameters of the query, of which repeated ones are joined by commas; Params those of the route.
	Query, Params map[string]string
	Body          []byte
}

// HTTPResponse is the value of an http output.
type HTTPResponse struct {
	Status int // 0: 200
	Header http.Header
	// Body is nil in a response without a body.
	Body *Value
}

// Result holds what a function returned.
type Result struct {
	Outputs map[string]Value
	// Return is the ReturnValue; its zero value without one.
	Return Value
}

// Value is a value that a function returned. At most one of JSON, Bytes, HTTP and Items is set.
type Value struct {
	JSON  json.RawMessage
	Bytes []byte
	HTTP  *HTTPResponse
	// Items are several values, such as a list of bytes.
	Items []Value
	// Literal: text that happens to be base64 is not decoded.
	Literal bool
}

// present reports whether the value is there at all.
func (v Value) present() bool {
	return jsonvalue.Present(v.JSON) != nil || v.Bytes != nil || v.HTTP != nil || v.Items != nil
}

// FunctionError means that a function has failed: its worker works.
type FunctionError struct{ Err error }

func (e *FunctionError) Error() string { return e.Err.Error() }

func (e *FunctionError) Unwrap() error { return e.Err }

// RetryContext has the number of the attempt under a retry policy.
type RetryContext struct {
	RetryCount    int
	MaxRetryCount int
	Exception     string // of the attempt before; empty for the first
}
