package largeentity

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/workers"
)

// Sweeper removes the unreferenced blobs and the reservations of crashed writers. If it finds such a blob of an
// existing entity, it touches the entity: its ETag and Timestamp change.
//
// One sweep reads the names of all the table's blobs, 5000 with each request, and for each 50,000 of them, once, the
// keys of all entities that have blobs, 1000 with each request.
type Sweeper struct {
	storage *workers.Storage
	engine  *engine
}

// NewSweeper returns the sweeper for a table and a container.
func NewSweeper(storage *workers.Storage, table, container string, options ...Option) (*Sweeper, error) {
	e, err := newEngine(storage, table, container, options)
	if err != nil {
		return nil, err
	}
	return &Sweeper{storage, e}, nil
}

// Create makes table and container where they are missing.
func (s *Sweeper) Create(ctx context.Context) error { return s.engine.create(ctx, s.storage) }

// DefaultSchedule is the time at which a registered sweeper runs unless an option says otherwise: every ten minutes.
const DefaultSchedule = "0 */10 * * * *"

// Register makes the sweeper the handler of a timer, which one instance at a time runs under a lease.
func (s *Sweeper) Register(app *workers.App, name string, options ...workers.TimerOption) *workers.Function {
	options = append([]workers.TimerOption{workers.WithSchedule(DefaultSchedule)}, options...)
	return app.Timer(name, func(ctx context.Context, _ workers.TimerInfo) error {
		_, err := s.Sweep(ctx)
		return err
	}, options...)
}

// Swept has the counts of a sweep.
type Swept struct {
	// Blobs were seen; Young ones of them, and of the reservations, were left alone for their age, Foreign ones because
	// their metadata names no entity.
	Blobs, Young, Foreign int
	// Removed is the number of unreferenced blobs removed, Reservations that of reservations of crashed writers.
	Removed, Reservations int
	// Deferred were left for the next sweep, since their entity changed meanwhile.
	Deferred int
}

// chunk bounds the blobs that a sweep keeps in memory.
const chunk = 50_000

// Sweep looks through table and container once. It may run while entities are written and deleted, and several times at
// once.
func (s *Sweeper) Sweep(ctx context.Context) (Swept, error) {
	var done Swept
	// The blobs are listed first, and the rows are read then: a reference that a writer adds in between is seen.
	candidates := map[string]Key{}
	prefix := blobPrefix(s.engine.table)
	pager := s.engine.blobs.client.NewListBlobsFlatPager(s.engine.blobs.container, &container.ListBlobsFlatOptions{
		Prefix: &prefix, Include: container.ListBlobsInclude{Metadata: true},
	})
	looked := false
	for pager.More() {
		page, err := pager.NextPage(ctx)
		if err != nil {
			return done, fmt.Errorf("largeentity: list the blobs of %s: %w", s.engine.blobs.container, err)
		}
		now := time.Now()
		// LastModified is of the service's clock, and so is this time.
		if page.Date != nil {
			now = *page.Date
		}
		for _, b := range page.Segment.BlobItems {
			done.Blobs++
			owner, ours := ownerOf(b.Metadata)
			switch {
			case !ours:
				done.Foreign++
			case b.Properties.LastModified == nil || now.Sub(*b.Properties.LastModified) < s.engine.age:
				done.Young++
			default:
				candidates[*b.Name] = owner
			}
		}
		// The rows are read once even without a candidate, because of the reservations.
		if len(candidates) >= chunk || !pager.More() && (len(candidates) > 0 || !looked) {
			if err := s.sweep(ctx, candidates, !looked, &done); err != nil {
				return done, err
			}
			clear(candidates)
			looked = true
		}
	}
	return done, nil
}

// sweep removes the unreferenced blobs among candidates, and, if requested, reservations.
func (s *Sweeper) sweep(ctx context.Context, candidates map[string]Key, reservations bool, done *Swept) error {
	orphans := map[Key][]string{}
	err := s.engine.rows.withPointers(ctx, func(r *row) error {
		for _, part := range r.pointers.Parts {
			delete(candidates, part.Blob)
		}
		if reservations && r.pointers.Reserved {
			orphans[r.key()] = nil // to be looked at, also if no blob was written for it
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("largeentity: scan the table %s: %w", s.engine.table, err)
	}
	for name, owner := range candidates {
		orphans[owner] = append(orphans[owner], name)
	}
	for owner, names := range orphans {
		if err := s.removeUnreferenced(ctx, owner, names, done); err != nil {
			return fmt.Errorf("largeentity: sweep %s/%s: %w", owner.PartitionKey, owner.RowKey, err)
		}
	}
	return nil
}

// removeUnreferenced removes blobs of one entity, after making sure that no writer references them or can do so later.
func (s *Sweeper) removeUnreferenced(ctx context.Context, k Key, names []string, done *Swept) error {
	// Read now: the list of blobs is older, and a writer may have referred to one of them since.
	r, err := s.engine.rows.get(ctx, k)
	if err != nil {
		return err
	}
	if r != nil {
		var orphans []string
		for _, name := range names {
			if !r.pointers.refersTo(name) {
				orphans = append(orphans, name)
			}
		}
		names = orphans
		// The row is changed: a writer that has reserved names and is still at work fails at its write, and cannot refer to
		// a blob that is removed below.
		fenced, err := s.fence(ctx, r, len(names), done)
		if err != nil || !fenced {
			return err
		}
	}
	for _, name := range names {
		if err := s.engine.blobs.remove(ctx, []string{name}, pointBeforeRemoveOrphan, pointAfterRemoveOrphan); err != nil {
			return err
		}
		done.Removed++
	}
	return nil
}

// fence makes every uncommitted write fail. It returns false if the row must not be touched in this sweep.
func (s *Sweeper) fence(ctx context.Context, r *row, blobs int, done *Swept) (bool, error) {
	switch {
	case r.pointers.Reserved && r.asked.Sub(r.Timestamp.Truncate(time.Second)) < s.engine.age:
		// as whole as the answer's time
		done.Young++
		return false, nil
	case !r.pointers.Reserved && blobs == 0:
		return false, nil
	}
	if err := fault.Point(pointBeforeFence); err != nil {
		return false, err
	}
	var err error
	if r.pointers.Reserved {
		err = s.engine.rows.delete(ctx, r.key(), r.ETag)
	} else {
		_, err = s.engine.rows.update(ctx, newEntity(r.key()), r.ETag, aztables.UpdateModeMerge)
	}
	if hasStatus(err, http.StatusPreconditionFailed, http.StatusNotFound) {
		done.Deferred += blobs
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if r.pointers.Reserved {
		done.Reservations++
	}
	return true, fault.Point(pointAfterFence)
}
