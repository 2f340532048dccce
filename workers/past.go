package workers

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/internal/sdk/sdkerr"
	"github.com/lazuli-storage/lazuli/workers/status"
)

// keptError bounds the text of an error that is kept of a call, in bytes.
const keptError = 2 << 10

// remember keeps a call that has ended at now with err. The caller holds s.mu.
func (s *stats) remember(ic *InvocationContext, now time.Time, err error) {
	c := status.Call{InvocationID: ic.InvocationID, MessageID: ic.messageID, Attempt: ic.RetryContext.RetryCount + 1,
		Began: ic.began, Outcome: status.Succeeded}
	if c.Began.IsZero() { // ended before its handler began
		c.Began = now
	}
	c.Seconds = now.Sub(c.Began).Seconds()
	snooze := (*snoozeError)(nil)
	switch {
	case err == nil:
	case errors.As(err, &snooze):
		c.Outcome = status.Snoozed
	case errors.Is(err, ErrCancelled):
		c.Outcome, c.Error = status.Cancelled, keptText(err)
	default:
		c.Outcome, c.Error = status.Failed, keptText(err)
	}
	number := s.past.Add(c)
	if c.Outcome == status.Failed {
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
func (a *App) Calls(function string) ([]status.Call, error) {
	for _, f := range a.functions {
		if f.name == function {
			f.stats.mu.Lock()
			defer f.stats.mu.Unlock()
			return f.stats.past.All(), nil
		}
	}
	return nil, fmt.Errorf("%w: %q", ErrNoFunction, function)
}
