// Package status has what an app knows of its functions in this process: workers.App.Stats and workers.App.Calls return
// it, and package adminhttp serves it over HTTP.
package status

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/lazuli-storage/lazuli/internal/sdk/sdkerr"
)

// LastError is an error and its time.
type LastError struct {
	At  time.Time
	Err error
}

// MarshalJSON returns {"At": ..., "Err": TEXT}: an error has no JSON of its own.
func (e LastError) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		At  time.Time
		Err string
	}{e.At, sdkerr.Text(e.Err)})
}

// PanicError is the error of a handler that panicked.
type PanicError struct {
	Value any
	// Stack is the stack of the goroutine that panicked.
	Stack []byte
}

// Error implements error.
func (e *PanicError) Error() string { return fmt.Sprintf("workers: the handler panicked: %v", e.Value) }

// Unwrap returns the value of the panic if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// Running describes a running call.
type Running struct {
	InvocationID string
	// MessageID is the message's id; empty for timers.
	MessageID string
	// Attempt is 1 for the first.
	Attempt int32
	Since   time.Time
}

// Function is a snapshot of a function's counters in this process.
type Function struct {
	Name, Trigger string
	// Queue is the queue that the function's messages come from, or those by priority with ", " between them; empty for
	// timers.
	Queue string
	// Paused is true after a Pause.
	Paused bool
	// InFlight is the number of in-flight messages or timer runs.
	InFlight int64
	// Running are the running calls, oldest first. Messages that wait for their key (ConcurrencyPerKey) are in flight and
	// not running.
	Running []Running
	// Succeeded and Failed count finished calls by their result.
	Succeeded, Failed int64
	// LastHour counts finished calls by the minute.
	LastHour LastHour
	// PerSecond is the number of calls that finished per second, over the last minute.
	PerSecond float64
	// Poisoned counts messages moved to the poison queue, Snoozed messages postponed with Snooze, Released messages
	// released because the app stopped.
	Poisoned, Snoozed, Released int64
	// PutBack counts deliveries that the limit of a key (WithRateLimitPerKey) has put back.
	PutBack int64
	// LeaseRenewals counts successful renewals, LeaseLost lost leases.
	LeaseRenewals, LeaseLost int64
	// Stuck counts abandoned handlers.
	Stuck int64
	// LastError is the last error of a handler or of the trigger; nil without errors.
	LastError *LastError
}

// LastHour holds the finished calls of the last 60 minutes by their result, those of the oldest minute first. The last
// minute is the current one.
type LastHour struct {
	Succeeded []int64 `json:"succeeded"`
	Failed    []int64 `json:"failed"`
}

// Outcomes of calls.
const (
	Succeeded = "succeeded"
	Failed    = "failed"
	Snoozed   = "snoozed"
	// Cancelled is a call whose job was cancelled, and which has returned an error.
	Cancelled = "cancelled"
)

// Call describes a call of a handler that has ended.
type Call struct {
	InvocationID string `json:"invocationId"`
	// MessageID is the message's id; empty without a message.
	MessageID string `json:"messageId,omitempty"`
	// Attempt is 1 for the first.
	Attempt int32     `json:"attempt"`
	Began   time.Time `json:"began"`
	// Seconds is the duration of the call.
	Seconds float64 `json:"seconds"`
	// Outcome is Succeeded, Failed, Snoozed or Cancelled.
	Outcome string `json:"outcome"`
	// Error is the text of the error, at most 2 KiB of it.
	Error string `json:"error,omitempty"`
}
