package workers

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/internal/sdk/sdkerr"
)

// keptError bounds the text of an error that is kept of a call, in bytes.
const keptError = 2 << 10

// Outcomes of calls.
const (
	CallSucceeded = "succeeded"
	CallFailed    = "failed"
	CallSnoozed   = "snoozed"
	// CallCancelled is a call whose job was cancelled, and which has returned an error.
	CallCancelled = "cancelled"
)

// Call describes a call of a handler that has ended.
type Call struct {
	InvocationID string `json:"invocationId"`
	// MessageID is the message's id; empty without a message.
	MessageID string `json:"messageId,omitempty"`
	// Attempt is 1 for the first.
	Attempt int32     `json:"attempt"`
	Began   time.Time `json:"began"`
	// Seconds is how long it took.
	Seconds float64 `json:"seconds"`
	// Outcome is CallSucceeded, CallFailed, CallSnoozed or CallCancelled.
	Outcome string `json:"outcome"`
	// Error is the text of the error, at most 2 KiB of it.
	Error string `json:"error,omitempty"`
}

// remember keeps a call that has ended at now with err. The caller holds s.mu.
func (s *stats) remember(ic *InvocationContext, now time.Time, err error) {
	c := Call{InvocationID: ic.InvocationID, MessageID: ic.messageID, Attempt: ic.RetryContext.RetryCount + 1,
		Began: ic.began, Outcome: CallSucceeded}
	if c.Began.IsZero() { // ended before its handler began
		c.Began = now
	}
	c.Seconds = now.Sub(c.Began).Seconds()
	snooze := (*snoozeError)(nil)
	switch {
	case err == nil:
	case errors.As(err, &snooze):
		c.Outcome = CallSnoozed
	case errors.Is(err, ErrCancelled):
		c.Outcome, c.Error = CallCancelled, keptText(err)
	default:
		c.Outcome, c.Error = CallFailed, keptText(err)
	}
	number := s.past.Add(c)
	if c.Outcome == CallFailed {
		s.past.Fail(number, c)
	}
}

// keptText is the text of an error that is kept of a call.
func keptText(err error) string {
	text := sdkerr.Text(err)
	if len(text) > keptError {
		text = strings.ToValidUTF8(text[:keptError], "") + "..."
	}
	return text
}

// Calls returns the last 20 calls of a function that have ended, the newest first, and behind them those of the last 20
// that failed which are older. The error is ErrNoFunction.
func (a *App) Calls(function string) ([]Call, error) {
	for _, f := range a.functions {
		if f.name == function {
			f.stats.mu.Lock()
			defer f.stats.mu.Unlock()
			return f.stats.past.All(), nil
		}
	}
	return nil, fmt.Errorf("%w: %q", ErrNoFunction, function)
}
