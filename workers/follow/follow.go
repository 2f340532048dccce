// Package follow has what workers.App.FollowTable and a copy of a table exchange: a search index, for instance, that
// keeps its position in the table's change log with its own data.
package follow

import (
	"context"
	"errors"

	"github.com/lazuli-storage/lazuli/workers/bindings"
)

// Copy is a copy of a table that has its own transactions, such as a search index, and keeps its position in the
// table's change log in the same transactions as the copy. workers.App.FollowTable calls its methods one at a time. A
// method that returns an error is called again.
type Copy interface {
	// Progress returns what the last successful Restart or Apply has stored. The zero value means that nothing is stored.
	Progress(ctx context.Context) (Progress, error)
	// Restart begins a new copy, without entities, and stores p. The entities that exist follow, as updates, while
	// p.Reading is true.
	Restart(ctx context.Context, p Progress) error
	// Apply stores changes, in their order, together with p. Entity and Before of a change are the entity in JSON.
	Apply(ctx context.Context, changes []bindings.TableChange, p Progress) error
}

// Progress says how far a [Copy] has come.
type Progress struct {
	// Position is the position in the table's change log; empty if the table does not exist.
	Position string
	// Reading is true while the existing entities are read. The changes after Position are read after them.
	Reading bool
	// Next says where reading continues; empty means at the start.
	Next string
}

// ErrRestarted is returned by a [Copy] whose progress is not the one that the call continues, since
// its owner wants a new copy. Progress is then called again.
var ErrRestarted = errors.New("follow: the copy of the table begins again")
