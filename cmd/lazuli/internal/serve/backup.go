package serve

import (
	"context"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/console"
	"github.com/lazuli-storage/lazuli/internal/server/backup"
)

// newSchedule returns the schedule of backups that the configuration names, nil for none.
func newSchedule(s *serving) (*backup.Schedule, error) {
	b := s.config.Backup
	if b.To == "" {
		return nil, nil
	}
	place, err := backup.Open(b.To, b.Account)
	if err != nil {
		return nil, console.Usage(err)
	}
	return &backup.Schedule{Place: place, Every: b.Every, Options: backup.Options{Keep: b.Keep, KeepFor: b.KeepFor},
		Log: s.log, Metrics: s.metrics}, nil
}

// startBackups runs the schedule, if there is one, until stop is called.
func (s *serving) startBackups(ctx context.Context, b Backend) (stop func()) {
	if s.backups == nil {
		return func() {}
	}
	s.backups.Open = func(ctx context.Context, _ backup.Held) (backup.Source, error) {
		m, err := b.Moment(ctx)
		if err != nil {
			return nil, err
		}
		return m, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.backups.Run(ctx)
	}()
	return func() { cancel(); <-ended }
}
