package workers

import (
	"fmt"

	"github.com/lazuli-storage/lazuli/workers/follow"
	"github.com/lazuli-storage/lazuli/workers/internal/tabletrigger"
	"github.com/lazuli-storage/lazuli/workers/internal/trigger"
)

// FollowTable keeps a copy of a table in step with it. It first reads the whole table, then the changes from the
// position that the log had before. It reads the table again if the log no longer has the follower's position, which is
// the case after one week or one million changes, and when the table was deleted and created again. Each change is
// applied once, since the follower stores its position with it. It needs Lazuli, as table triggers do.
//
// Each process that calls FollowTable keeps a copy of its own: no lock between processes is taken. Middleware is not
// called. A failed step is tried again after one second, without limit.
func (a *App) FollowTable(name, table string, follower follow.Copy) *Function {
	f := register(a, name, trigger.TableTrigger, []TableOption{WithTable(table)})
	if follower == nil {
		a.errs = append(a.errs, fmt.Errorf("workers: function %q: the follower is nil", name))
	}
	if err := tabletrigger.CheckName(table); err != nil {
		a.errs = append(a.errs, fmt.Errorf("workers: function %q: %w", name, err))
	}
	f.follows = true
	f.listen = func(a *App, f *Function, storage *Storage) (trigger.Listener, error) {
		return tabletrigger.NewFollower(a.environment(f, storage), f.core, follower)
	}
	return f
}
