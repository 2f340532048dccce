package archive

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lazuli-storage/lazuli/internal/server/backup"
)

// retryBase is the wait after a base that failed.
const retryBase = time.Minute

// metrics are the metrics of an archive.
type metrics struct {
	segments, bytes, failures, gaps prometheus.Counter
}

func (a *Archive) register() {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	a.m = metrics{
		segments: counter("lazuli_archive_segments_total", "Segments of the log that were sent to the archive."),
		bytes:    counter("lazuli_archive_bytes_total", "Bytes of these segments, without bases."),
		failures: counter("lazuli_archive_failures_total", "Segments and bases that could not be sent; they are sent again."),
		gaps:     counter("lazuli_archive_gaps_total", "Times at which the archive had to begin again with another base."),
	}
	if a.o.Metrics == nil {
		return
	}
	// Before the first publish there is nothing to show, and no spool to ask.
	gauge := func(name, help string, value func(s *state) float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 {
			if s := a.position.Load(); s != nil {
				return value(s)
			}
			return 0
		})
	}
	a.o.Metrics.MustRegister(a.m.segments, a.m.bytes, a.m.failures, a.m.gaps,
		gauge("lazuli_archive_lag_seconds", "Age of the newest moment that the archive has; 0 before the first.",
			func(s *state) float64 {
				if s.Until == 0 {
					return 0
				}
				return max(0, a.o.Now().Sub(time.Unix(0, s.Until)).Seconds())
			}),
		gauge("lazuli_archive_refuses_writes",
			"1 while archive-fence refuses writes: the archive may belong to another server, or is too far behind.",
			func(*state) float64 {
				if a.Allow() != nil {
					return 1
				}
				return 0
			}),
		gauge("lazuli_archive_waiting_bytes", "Bytes in the data folder that wait for the archive.",
			func(*state) float64 { return float64(a.waiting()) }),
		gauge("lazuli_archive_base_timestamp_seconds",
			"Time of the newest base of the archive, in seconds since 1970; 0 without one: nothing can be restored.",
			func(s *state) float64 {
				if s.Base.IsZero() {
					return 0
				}
				return float64(s.Base.UnixMilli()) / 1000
			}))
}

// Run sends segments, and makes bases from what open returns, until ctx ends. It begins after Attach.
func (a *Archive) Run(ctx context.Context, open func(context.Context, backup.Held) (backup.Source, error)) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		a.makeBases(ctx, open)
	}()
	defer func() { <-ended }()
	tick := time.NewTicker(a.o.Every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-a.wake:
			// Without the pause a place that cannot be reached would be asked again at once.
			if a.silent() {
				continue
			}
		}
		a.Send(ctx)
	}
}

// Send sends what there is now, and reports an error to the log and the metrics.
func (a *Archive) Send(ctx context.Context) {
	a.cutting.Lock()
	defer a.cutting.Unlock()
	if a.content == nil { // the services are closed
		return
	}
	err := a.cut(ctx)
	if errors.Is(err, errAgain) {
		err = a.cut(ctx)
	}
	if ctx.Err() == nil {
		a.report(err)
	}
}

func (a *Archive) silent() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.failed != ""
}

// report notes the result of a cut. An error is logged when it begins, not each time.
func (a *Archive) report(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err == nil {
		if a.failed != "" {
			a.o.Log.Info("the archive can be written again", "to", a.o.Place.String())
		}
		a.failed = ""
		return
	}
	a.m.failures.Inc()
	if a.failed == "" {
		a.o.Log.Error("the archive cannot be written: changes wait in the data folder", "to", a.o.Place.String(), "err", err,
			"at_most_bytes", a.o.Spool)
	}
	a.failed = err.Error()
}

// makeBases makes the first base of each timeline, and others at an interval.
func (a *Archive) makeBases(ctx context.Context, open func(context.Context, backup.Held) (backup.Source, error)) {
	for ctx.Err() == nil {
		wait := time.Duration(0)
		if s := a.position.Load(); !s.Base.IsZero() {
			wait = s.Base.Add(a.o.Base).Sub(a.o.Now())
		}
		if wait <= 0 {
			if err := a.makeBase(ctx, open); err != nil && ctx.Err() == nil {
				a.m.failures.Inc()
				a.o.Log.Error("the base of the archive failed", "to", a.o.Place.String(), "err", err, "again_after",
					retryBase.String())
				wait = retryBase
			} else {
				continue
			}
		}
		select {
		case <-ctx.Done():
		case <-a.based:
		case <-time.After(wait):
		}
	}
}

// makeBase makes a base, and removes what is older than the time that must stay reachable.
func (a *Archive) makeBase(ctx context.Context, open func(context.Context, backup.Held) (backup.Source, error)) error {
	began := time.Now()
	a.cutting.Lock()
	err := a.own(ctx)
	a.cutting.Unlock()
	if err != nil {
		return err
	}
	// The newest backup stays in any case. One that is older than all that must be reachable is needed as the beginning,
	// and is at most one interval older.
	r, err := backup.Make(ctx, a.o.Place, open, backup.Options{Keep: 1, KeepFor: a.o.Keep + a.o.Base, Now: a.o.Now})
	if err != nil {
		return err
	}
	if r.Log == nil {
		return errors.New("the base does not say where it is in the log")
	}
	// The timeline may have ended while the base was made.
	a.cutting.Lock()
	current := a.state.Timeline == r.Log.Timeline
	if current {
		a.state.Base = r.Log.At
		err = a.state.save(a.dir)
		a.publish()
	}
	a.cutting.Unlock()
	if !current { // a gap, meanwhile: the next base belongs to the timeline after it
		return nil
	}
	a.o.Log.Info("base of the archive made", "to", a.o.Place.String(), "name", r.Name, "bytes", r.Bytes, "new", r.New,
		"took", time.Since(began).Round(time.Millisecond).String())
	return errors.Join(err, a.tidy(ctx))
}

// tidy removes the segments that no base needs.
func (a *Archive) tidy(ctx context.Context) error {
	bases, err := readBases(ctx, a.o.Place)
	if err != nil {
		return err
	}
	first := map[string]uint64{}
	for _, m := range bases {
		if n, ok := first[m.Log.Timeline]; !ok || m.Log.Segment < n {
			first[m.Log.Timeline] = m.Log.Segment
		}
	}
	var names []string
	err = a.o.Place.List(ctx, logFolder, func(name string) error { names = append(names, name); return nil })
	if err != nil {
		return err
	}
	// The names were collected before: a place may not be changed while it lists.
	for _, name := range names {
		rest := strings.TrimPrefix(name, logFolder)
		timeline, _, _ := strings.Cut(rest, "/")
		_, number, isSegment := parseName(name)
		needed, based := first[timeline]
		switch {
		case based && (!isSegment || number >= needed):
			continue
		case !based:
			// The first base of a timeline may not have been made yet, here or on another server.
			if began, ok := timelineBegan(timeline); !ok || began.After(a.o.Now().Add(-a.o.Keep-a.o.Base)) {
				continue
			}
		}
		if err := a.o.Place.Remove(ctx, name); err != nil {
			return fmt.Errorf("remove %s: %w", name, err)
		}
	}
	return nil
}
