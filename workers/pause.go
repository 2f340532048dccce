package workers

import (
	"errors"
	"fmt"
	"time"

	"github.com/lazuli-storage/lazuli/workers/internal/trigger"
)

// maxPause is how long Pause waits for the end of a poll, at a service that does not answer.
const maxPause = 5 * time.Second

// Pause stops new calls of a function in this process until Resume. Running calls continue. Messages of queue, blob and
// table triggers stay in their queues; timer runs that become due are skipped. The pause lasts over Stop and Start, but
// not beyond the process, and does not affect other instances. Pausing a paused function does nothing.
//
// `lazuli workers pause --app` and the dashboard pause a function in all processes of an app, by a row of the account;
// see Config.Heartbeat. A function runs if neither pauses it.
func (a *App) Pause(function string) error { return a.setPaused(function, true) }

// Resume ends a Pause. A function that a row of the account pauses stays paused.
func (a *App) Resume(function string) error { return a.setPaused(function, false) }

// ErrNotPausable: the function is one that cannot be paused.
var ErrNotPausable = errors.New("workers: the function cannot be paused")

func (a *App) setPaused(function string, paused bool) error {
	for _, f := range a.functions {
		if f.core.Name == function {
			if f.core.Trigger == trigger.OrchestrationTrigger {
				return fmt.Errorf("%w: %q is an orchestration: suspend its instances", ErrNotPausable, function)
			}
			if f.core.Gate.Set(trigger.PausedHere, paused) {
				a.config.Logger.Info("function "+map[bool]string{true: "paused", false: "resumed"}[paused], "function", function)
			}
			if paused {
				f.core.Gate.EndPoll(a.config.Clock, maxPause)
			}
			return nil
		}
	}
	return fmt.Errorf("%w: %q", ErrNoFunction, function)
}
