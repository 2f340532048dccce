package server

import (
	"context"
	"errors"
	"fmt"

	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/storage/cluster"
	"github.com/lazuli-storage/lazuli/internal/storage/datadir"
	"github.com/lazuli-storage/lazuli/server/backup"
)

// pointExtracted is the moment at which tests kill a node that makes a folder.
var pointExtracted = fault.Declare("extract/written")

// ErrNoSpace means that the disk has no room for an extracted folder.
var ErrNoSpace = errors.New("the disk has no room for another copy of the data")

// ErrNotReady means that a node does not know what is current, for example because it has no majority of the cluster.
var ErrNotReady = errors.New("the node is not ready")

// Extract makes a data folder for a server alone from the state of the cluster, inside the data folder of this node,
// and returns its path. The folder has everything that was acknowledged before the call. Requests are served meanwhile.
//
// Errors: [cluster.ErrNotClustered], [ErrNotReady], [ErrNoSpace], those of [datadir.Dir.Extracted], and [ErrBusy].
func (s *Stack) Extract(ctx context.Context, name string) (path string, err error) {
	if !s.Clustered() {
		return "", cluster.ErrNotClustered
	}
	m, err := s.Moment(ctx)
	if err != nil {
		return "", err
	}
	defer m.Close()
	if err := s.roomToExtract(m.open); err != nil {
		return "", err
	}
	return s.dir.Extracted(name, func(d *datadir.Dir) error {
		if err := backup.Fill(ctx, d, m, s.config.Now()); err != nil {
			return err
		}
		return errors.Join(checkCopy(d.Path()), fault.Point(pointExtracted))
	})
}

// roomToExtract returns an error if the disk has less room than the data may need.
func (s *Stack) roomToExtract(open *services) error {
	free, ok := s.space.Free()
	if !ok {
		return nil
	}
	tables, err := open.tables.Size()
	if err != nil {
		return err
	}
	u, err := open.blobs.Usage()
	if err != nil {
		return err
	}
	queues, err := open.queues.Size()
	if err != nil {
		return err
	}
	if need := tables + u.Metadata + u.Content + queues; need > free {
		return fmt.Errorf("%w: it may need %d bytes, and %d are free", ErrNoSpace, need, free)
	}
	return nil
}
