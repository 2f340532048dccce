package searchindex

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/lazuli-storage/lazuli/internal/searchapi"
	"github.com/lazuli-storage/lazuli/tables"
	"github.com/lazuli-storage/lazuli/workers"
	"github.com/lazuli-storage/lazuli/workers/follow"
)

// RegisterQueue keeps the index in step by messages, for services without a log of changes: see
// [searchapi.RegisterQueue].
func (x *Index) RegisterQueue(app *workers.App, name string, options ...workers.QueueOption) *workers.Function {
	return searchapi.RegisterQueue(app, name, x, options...)
}

// Build reads the whole table, unless that has been done. If it is interrupted, the next call continues. It is for
// services without a log of changes.
func (x *Index) Build(ctx context.Context) error {
	x.write.Lock()
	defer x.write.Unlock()
	if x.source == nil {
		return errReadOnly
	}
	// The last page may have been written by a process that stopped before the switch.
	if err := x.promote(); err != nil {
		return err
	}
	if x.building == nil && x.serving != nil && !x.state.Rebuild {
		return nil
	}
	if x.building == nil || x.state.Rebuild {
		if err := x.restart(follow.Progress{Reading: true}); err != nil {
			return err
		}
	}
	for x.building != nil {
		if err := x.buildPage(ctx); err != nil {
			return err
		}
	}
	return nil
}

// buildPage reads and writes one page of the table. x.write is held.
func (x *Index) buildPage(ctx context.Context) error {
	g := x.building
	p, err := g.progress()
	if err != nil {
		return err
	}
	page, err := x.source.Query().AllowScan().Page(ctx, p.Next)
	// A table that does not exist is an empty one: its index is complete, and is filled when entities come.
	if err != nil && !errors.Is(err, tables.ErrTableNotFound) {
		return fmt.Errorf("searchindex: read the table: %w", err)
	}
	b := g.index.NewBatch()
	for i := range page.Items {
		if err := x.put(b, &page.Items[i]); err != nil {
			return err
		}
	}
	// The page and where the next one begins are one write, so that an interrupted build neither repeats nor skips
	// entities.
	return x.commit(g, b, follow.Progress{Reading: page.Next != "", Next: page.Next})
}

var errReadOnly = errors.New("searchindex: the index was opened for searches alone")

// pendingKeys collects the calls of Update that one batch handles.
type pendingKeys struct {
	mu   sync.Mutex // guards list
	list []pendingKey
}

type pendingKey struct {
	key  tables.Key
	done chan error // has room for the result
}

// maxUpdates is the maximum number of entities in a batch of Update, readsAtOnce of which are read concurrently.
const (
	maxUpdates  = 256
	readsAtOnce = 16
)

// Update reads the entity under key and writes it to the index, or removes it there if it does not exist. Concurrent
// calls share one write.
func (x *Index) Update(ctx context.Context, key tables.Key) error {
	if x.source == nil {
		return errReadOnly
	}
	mine := pendingKey{key, make(chan error, 1)}
	x.pending.mu.Lock()
	x.pending.list = append(x.pending.list, mine)
	x.pending.mu.Unlock()
	// The caller that gets the lock handles all that wait, in one write. The others find their result when they get it.
	for {
		x.write.Lock()
		select {
		case err := <-mine.done:
			x.write.Unlock()
			return err
		default:
		}
		batch := x.pending.take()
		// The batch has the keys of other callers, which the end of this caller's context must not fail.
		err := x.update(context.WithoutCancel(ctx), batch)
		x.write.Unlock()
		for _, k := range batch {
			k.done <- err
		}
	}
}

// take removes the calls of the next batch.
func (p *pendingKeys) take() []pendingKey {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := min(len(p.list), maxUpdates)
	batch := p.list[:n:n]
	p.list = p.list[n:]
	return batch
}

// update handles a batch. x.write is held, so that nothing else writes between the reading of an entity and its write.
func (x *Index) update(ctx context.Context, batch []pendingKey) error {
	g := x.current()
	if g == nil {
		return errors.New("searchindex: the index has not been built")
	}
	p, err := g.progress()
	if err != nil {
		return err
	}
	// Read while the lock is held: an entity that was read before another batch would bring back an old state.
	entities := make([]*tables.Entity, len(batch))
	var reads errgroup.Group
	reads.SetLimit(readsAtOnce)
	for i, k := range batch {
		reads.Go(func() (err error) {
			entities[i], err = x.find(ctx, k.key)
			return err
		})
	}
	if err := reads.Wait(); err != nil {
		return fmt.Errorf("searchindex: %w", err)
	}
	b := g.index.NewBatch()
	for i, k := range batch {
		if entities[i] == nil {
			b.Delete(documentID(k.key))
		} else if err := x.put(b, entities[i]); err != nil {
			return fmt.Errorf("searchindex: entity (%q, %q): %w", k.key.PartitionKey, k.key.RowKey, err)
		}
	}
	return x.commit(g, b, p)
}

// find reads an entity. It returns nil if the entity does not exist.
func (x *Index) find(ctx context.Context, k tables.Key) (*tables.Entity, error) {
	e, err := x.source.Get(ctx, k)
	if errors.Is(err, tables.ErrNotFound) || errors.Is(err, tables.ErrTableNotFound) {
		return nil, nil
	}
	return &e, err
}
