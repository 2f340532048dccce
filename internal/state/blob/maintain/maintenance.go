package maintain

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/lazuli-storage/lazuli/internal/state/blob/offline"
	"github.com/lazuli-storage/lazuli/internal/state/blob/replica"
)

// Maintenance has the background work, the checker, and the figures about both.
type Maintenance struct {
	// Accesses are reads that are not in the records yet.
	Accesses Accesses

	node       *replica.Node
	expire     ExpireFunc
	compaction schedule
	// compactions, freed and moved count the compactions and their bytes, see [Usage].
	compactions, freed, moved atomic.Int64
}

// New returns the maintenance of the files of a node. expire is called by [Maintenance.ExpireBlobs].
func New(node *replica.Node, expire ExpireFunc) *Maintenance {
	return &Maintenance{node: node, expire: expire}
}

// Tidy removes deleted data past its retention, abandoned uncommitted blocks, and garbage. It reads all uncommitted
// blocks and deleted containers; Collect is cheaper.
func (s *Maintenance) Tidy(ctx context.Context, now time.Time) error {
	return errors.Join(s.purgeContainers(ctx, now), s.purgeTrash(ctx, now), s.expireBlocks(ctx, now), s.Collect(ctx, now))
}

// Collect removes deleted blobs past their retention, and garbage.
func (s *Maintenance) Collect(ctx context.Context, now time.Time) error {
	return errors.Join(s.purgeBlobs(ctx, now), s.collectGarbage(ctx))
}

// Audit checks a service that runs, for tests: no request may be under way.
func (s *Maintenance) Audit(report func(error)) (offline.Audit, error) {
	return offline.CheckOpen(s.node.DB, s.node.Extents, report)
}
