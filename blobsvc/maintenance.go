package blobsvc

import (
	"context"
	"errors"

	"github.com/lazuli-storage/lazuli/internal/storage/extent"
)

// Clean does all background work but compaction now.
func (s *Service) Clean(ctx context.Context) error {
	now := s.now()
	return errors.Join(s.state.ExpireBlobs(ctx, now), s.state.FlushAccesses(ctx),
		s.background.feeds.Write(ctx, s.accounts.Names(), now), s.state.Tidy(ctx, now))
}

// Compact gives space back, see [extent.Store.Compact].
func (s *Service) Compact(ctx context.Context, o extent.CompactOptions) (extent.Compacted, error) {
	return s.state.Compact(ctx, o)
}

// Audit checks a service that runs, for tests: no request may be under way.
func (s *Service) Audit(report func(error)) (Audit, error) { return s.state.Audit(report) }
