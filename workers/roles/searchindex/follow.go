package searchindex

import (
	"context"
	"errors"
	"fmt"

	"github.com/blevesearch/bleve/v2"

	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/searchapi"
	"github.com/lazuli-storage/lazuli/tables"
	"github.com/lazuli-storage/lazuli/workers"
	"github.com/lazuli-storage/lazuli/workers/follow"
)

// Register keeps the index in step with the changes of the table, including the existing entities. It works on Lazuli
// only; see [workers.App.FollowTable].
func (x *Index) Register(app *workers.App, name string) *workers.Function {
	return app.FollowTable(name, x.table, x.Follower())
}

// Follower returns the index as [workers.App.FollowTable] uses it, for programs that wrap it.
func (x *Index) Follower() follow.Copy { return follower{x} }

// follower is the index as App.FollowTable sees it.
type follower struct{ *Index }

// Progress implements follow.Copy.
func (x follower) Progress(context.Context) (follow.Progress, error) {
	x.write.Lock()
	defer x.write.Unlock()
	if err := x.promote(); err != nil { // The last commit may have been followed by an error.
		return follow.Progress{}, err
	}
	// A generation that is being built has the progress that counts. The zero progress makes the app call Restart.
	if g := x.current(); g != nil && !x.state.Rebuild {
		return g.progress()
	}
	return follow.Progress{}, nil
}

// Restart implements follow.Copy.
func (x follower) Restart(_ context.Context, p follow.Progress) error {
	x.write.Lock()
	defer x.write.Unlock()
	return x.restart(p)
}

// restart begins a new generation. x.write is held.
func (x *Index) restart(p follow.Progress) error {
	if x.closed {
		return ErrClosed
	}
	if err := fault.Point(searchapi.BeforeRestart); err != nil {
		return err
	}
	// The generation exists on disk before the state names it. A crash in between leaves a folder that clean removes; in
	// the other order the state would name nothing.
	g, err := x.folder.newGeneration(x.fields, p)
	if err != nil {
		return err
	}
	if err := fault.Point(searchapi.AfterCreate); err != nil {
		return errors.Join(err, g.remove(x.folder))
	}
	old := x.building
	s := x.state
	// In one write: a request for a rebuild is over when its generation has begun, and not before.
	s.Building, s.Rebuild = g.id, false
	if err := x.replace(s, x.serving, g); err != nil {
		return errors.Join(err, g.remove(x.folder))
	}
	if err := fault.Point(searchapi.AfterRestart); err != nil {
		return err
	}
	// After the state no longer names it, so that no start opens a generation that is half removed.
	x.discard(old)
	return nil
}

// Apply implements follow.Copy.
func (x follower) Apply(_ context.Context, changes []workers.TableChange, p follow.Progress) error {
	x.write.Lock()
	defer x.write.Unlock()
	g := x.current()
	if g == nil || x.state.Rebuild {
		// Changes continue from a progress that this follower no longer has. The app asks for Progress again.
		return follow.ErrRestarted
	}
	b := g.index.NewBatch()
	for _, c := range changes {
		key := tables.Key{PartitionKey: c.PartitionKey, RowKey: c.RowKey}
		// The log of changes has the entity as it is after the change, and nothing for a deletion.
		if len(c.Entity) == 0 {
			b.Delete(documentID(key))
			continue
		}
		var e tables.Entity
		err := e.UnmarshalJSON(c.Entity)
		if err == nil {
			err = x.put(b, &e)
		}
		if err != nil {
			return fmt.Errorf("searchindex: entity (%q, %q): %w", c.PartitionKey, c.RowKey, err)
		}
	}
	return x.commit(g, b, p)
}

// put adds an entity to a batch.
func (x *Index) put(b *bleve.Batch, e *tables.Entity) error {
	return b.Index(documentID(tables.Key{PartitionKey: e.PartitionKey, RowKey: e.RowKey}), document(x.fields, e))
}

// commit writes a batch, and makes its generation the serving one if the whole table has been read. x.write is held.
func (x *Index) commit(g *generation, b *bleve.Batch, p follow.Progress) error {
	if err := fault.Point(searchapi.BeforeCommit); err != nil {
		return err
	}
	if err := g.commit(b, p); err != nil {
		return err
	}
	if err := fault.Point(searchapi.AfterCommit); err != nil {
		return err
	}
	return x.promote()
}
