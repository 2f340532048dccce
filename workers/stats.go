package workers

import (
	"strings"

	"github.com/lazuli-storage/lazuli/workers/status"
)

// Stats returns a snapshot of every function, in the order of registration. It can be called at any time.
func (a *App) Stats() []status.Function {
	all := make([]status.Function, 0, len(a.functions))
	for _, f := range a.functions {
		snapshot := f.core.Snapshot(a.config.Clock.Now())
		if f.fromQueue() {
			snapshot.Queue = strings.Join(f.queues(), ", ")
		}
		all = append(all, snapshot)
	}
	return all
}
