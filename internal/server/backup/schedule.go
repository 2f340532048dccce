package backup

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// retryAfter is the wait after a backup that failed, if that is less than the interval.
const retryAfter = 5 * time.Minute

// Schedule makes backups at an interval. Several servers may have the same one, such as the nodes of a cluster: the
// first makes the backup, and the others see that it was made.
type Schedule struct {
	Place   Place
	Every   time.Duration
	Open    func(context.Context, Held) (Source, error)
	Options Options
	Log     *slog.Logger
	// Metrics, if set, gets lazuli_backup_last_success_timestamp_seconds, lazuli_backup_failures_total and
	// lazuli_backup_bytes.
	Metrics prometheus.Registerer
	// Sleep waits, until ctx ends; nil is by the system's clock. For tests.
	Sleep func(context.Context, time.Duration)
}

// Run makes backups until ctx ends.
func (s *Schedule) Run(ctx context.Context) {
	if s.Options.Now == nil {
		s.Options.Now = time.Now
	}
	sleep := s.Sleep
	if sleep == nil {
		sleep = func(ctx context.Context, d time.Duration) {
			select {
			case <-ctx.Done():
			case <-time.After(d):
			}
		}
	}
	last := prometheus.NewGauge(prometheus.GaugeOpts{Name: "lazuli_backup_last_success_timestamp_seconds",
		Help: "Time of the newest backup of the schedule, in seconds since 1970; 0 before it is known."})
	size := prometheus.NewGauge(prometheus.GaugeOpts{Name: "lazuli_backup_bytes",
		Help: "Size of the newest backup that this process made, with what it shares with others."})
	failures := prometheus.NewCounter(prometheus.CounterOpts{Name: "lazuli_backup_failures_total",
		Help: "Backups of the schedule that failed."})
	if s.Metrics != nil {
		s.Metrics.MustRegister(last, size, failures)
	}
	for ctx.Err() == nil {
		newest, err := s.newest(ctx)
		if err == nil {
			if !newest.IsZero() {
				last.Set(float64(newest.UnixMilli()) / 1000)
			}
			// Another clock may have named the newest backup with a time to come. The wait is bounded, so that a wrong name
			// does not end the backups.
			if wait := newest.Add(s.Every).Sub(s.Options.Now()); wait > 0 {
				sleep(ctx, min(wait, s.Every))
				continue
			}
			var r Result
			began := time.Now()
			if r, err = Make(ctx, s.Place, s.Open, s.Options); r.Manifest != nil {
				size.Set(float64(r.Bytes))
				s.Log.Info("backup made", "to", s.Place.String(), "name", r.Name, "bytes", r.Bytes, "new", r.New,
					"removed", len(r.Removed), "took", time.Since(began).Round(time.Millisecond).String())
				if len(r.Incomplete) > 0 {
					s.Log.Error("pieces of older backups are missing: they cannot be restored", "from", s.Place.String(),
						"backups", r.Incomplete)
				}
			}
		}
		switch {
		case err == nil || ctx.Err() != nil:
		// Another server is making the backup. That is no failure: a later look finds what it has made.
		case errors.Is(err, ErrLocked):
			sleep(ctx, min(s.Every, retryAfter))
		default:
			failures.Inc()
			wait := min(s.Every, retryAfter)
			s.Log.Error("backup failed", "to", s.Place.String(), "err", err, "again_after", wait.String())
			sleep(ctx, wait)
		}
	}
}

// newest returns the time of the newest backup, the zero time if there are no backups.
func (s *Schedule) newest(ctx context.Context) (time.Time, error) {
	names, err := Names(ctx, s.Place)
	if err != nil || len(names) == 0 {
		return time.Time{}, err
	}
	return time.Parse(nameLayout, names[len(names)-1])
}
