package serve

import (
	"cmp"
	"context"
	"fmt"
	"sync"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/console"
	"github.com/lazuli-storage/lazuli/internal/server/archive"
	"github.com/lazuli-storage/lazuli/internal/server/backup"
	"github.com/lazuli-storage/lazuli/internal/server/config"
	"github.com/lazuli-storage/lazuli/internal/storage/tier"
)

// bucketExists refuses the bucket of an option if it does not exist: the server would start, and retry without a limit.
func bucketExists(option, place string) error {
	if err := backup.CheckBucket(context.Background(), place); err != nil {
		return fmt.Errorf("%s: %w", option, err)
	}
	return nil
}

// newSchedule returns the schedule of backups that the configuration names, nil for none.
func newSchedule(s *serving) (*backup.Schedule, error) {
	b := s.config.Backup
	if b.To == "" {
		return nil, nil
	}
	place, err := backup.Open(b.To, b.Account)
	if err == nil {
		err = bucketExists("backup-to", b.To)
	}
	if err != nil {
		return nil, console.Usage(err)
	}
	return &backup.Schedule{Place: place, Every: b.Every, Options: backup.Options{Keep: b.Keep, KeepFor: b.KeepFor},
		Log: s.log, Metrics: s.metrics}, nil
}

// newArchive returns the archive that the configuration names, nil for none: of a standby, that to which it sends once
// it was promoted.
func newArchive(s *serving) (*archive.Archive, error) {
	a := s.config.Archive
	to := cmp.Or(a.To, a.StandbyOf)
	if to == "" {
		return nil, nil
	}
	place, err := backup.OpenSealed(to, a.Account, a.KeyFile)
	if err == nil {
		err = bucketExists("archive", to)
	}
	if err != nil {
		return nil, console.Usage(err)
	}
	if a.StandbyOf != "" {
		s.standby = archive.NewFollower(archive.FollowOptions{Place: place, Log: s.log, Metrics: s.metrics})
		a.Fence = true // the promotion takes the place with it, and the next standby needs it
	}
	return archive.New(archive.Options{Place: place, Every: a.Every, Base: a.Base, Keep: a.Keep,
		Spool: int64(a.SpoolMiB) << 20, Fence: a.Fence, Log: s.log, Metrics: s.metrics}), nil
}

// TierOptions returns the tier of content that the configuration names, nil for none.
func TierOptions(t config.Tier) (*tier.Options, error) {
	if t.To == "" {
		return nil, nil
	}
	objects, key, err := backup.OpenSealedObjects(t.To, t.Account, t.KeyFile)
	if err == nil {
		err = bucketExists("content-tier", t.To)
	}
	if err != nil {
		return nil, console.Usage(err)
	}
	return &tier.Options{Objects: objects, Key: key, Cache: int64(t.CacheMiB) << 20}, nil
}

// moments returns how backups open the state of the backend: hold makes the moment one of all logs of a cluster.
func moments(b Backend, hold bool) func(context.Context, backup.Held) (backup.Source, error) {
	return func(ctx context.Context, held backup.Held) (backup.Source, error) { return b.Backup(ctx, hold, held) }
}

// startBackups runs the schedule and the archive, if there are any, until stop is called.
func (s *serving) startBackups(ctx context.Context, b Backend) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	if s.backups != nil {
		s.backups.Open = moments(b, s.config.Backup.HoldWrites)
		running.Go(func() { s.backups.Run(ctx) })
	}
	if s.archive != nil {
		running.Go(func() {
			if promoted := b.Promoted(); promoted != nil {
				select {
				case <-promoted:
				case <-ctx.Done():
					return
				}
			}
			s.archive.Run(ctx, b.ArchiveMoment)
		})
	}
	return func() { cancel(); running.Wait() }
}
