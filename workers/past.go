package workers

import (
	"fmt"

	"github.com/lazuli-storage/lazuli/workers/status"
)

// Calls returns the last 20 calls of a function that have ended, the newest first, and behind them those of the last 20
// that failed which are older. The error is ErrNoFunction.
func (a *App) Calls(function string) ([]status.Call, error) {
	for _, f := range a.functions {
		if f.core.Name == function {
			return f.core.Stats.Ended(), nil
		}
	}
	return nil, fmt.Errorf("%w: %q", ErrNoFunction, function)
}
