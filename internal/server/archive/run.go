package archive

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/internal/server/backup"
)

// retryBase is the wait after a base that failed, and lockedBase that for the base of another shard.
const (
	retryBase  = time.Minute
	lockedBase = time.Second
)

// run is [Archive.Run] of one shard.
func (a *Shard) run(ctx context.Context, open func(context.Context, backup.Held) (backup.Source, error)) {
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
func (a *Shard) Send(ctx context.Context) {
	select {
	case a.in.turns <- struct{}{}:
	case <-ctx.Done():
		return
	}
	defer func() { <-a.in.turns }()
	a.cutting.Lock()
	defer a.cutting.Unlock()
	if a.content == nil { // the services are closed
		return
	}
	cut := a.cut
	if a.shared.on {
		cut = a.cutShared
	}
	err := cut(ctx)
	if errors.Is(err, errAgain) {
		err = cut(ctx)
	}
	if ctx.Err() == nil {
		a.report(err)
	}
}

// Detach sends what there is, if the place answers, and ends the use of the content. No request is served any more.
func (a *Shard) Detach(ctx context.Context) {
	a.cutting.Lock()
	defer a.cutting.Unlock()
	if a.content == nil {
		return
	}
	a.mu.Lock()
	silent := a.failed != ""
	a.mu.Unlock()
	if !silent {
		ctx, cancel := context.WithTimeout(ctx, detachTimeout)
		defer cancel()
		switch {
		case !a.shared.on:
			a.report(a.cut(ctx))
		case a.shared.sends: // another node goes on where this one ends
			a.report(a.cutShared(ctx))
		}
	}
	a.content = nil
}

// detachTimeout bounds the wait for the place at a stop. What was not sent then is sent after the next start.
const detachTimeout = 5 * time.Second

func (a *Shard) silent() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.failed != ""
}

// report notes the result of a cut. An error is logged when it begins, not each time.
func (a *Shard) report(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err == nil {
		if a.failed != "" {
			a.o.Log.Info("the archive can be written again", "to", a.o.Place.String())
		}
		a.failed = ""
		return
	}
	a.in.m.failures.Inc()
	if a.failed == "" {
		a.o.Log.Error("the archive cannot be written: changes wait in the data folder", "to", a.o.Place.String(), "err", err,
			"at_most_bytes", a.o.Spool)
	}
	a.failed = err.Error()
}

// makeBases makes the first base of each timeline, and others at an interval.
func (a *Shard) makeBases(ctx context.Context, open func(context.Context, backup.Held) (backup.Source, error)) {
	for ctx.Err() == nil {
		wait := a.nextBase()
		if wait <= 0 {
			if err := a.makeBase(ctx, open); errors.Is(err, backup.ErrLocked) && a.in.keeper != a {
				wait = lockedBase // another node makes that of another shard
			} else if err != nil && ctx.Err() == nil {
				a.in.m.failures.Inc()
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

// nextBase returns how long it is until the next base is due.
func (a *Shard) nextBase() time.Duration {
	s := a.position.Load()
	switch {
	case a.shared.on && a.nextShared() == nil: // another node makes the bases
		return a.o.Every
	case a.shared.on && a.nextShared().Timeline != s.Timeline, s.Base.IsZero():
		return 0
	}
	return s.Base.Add(a.o.Base).Sub(a.o.Now())
}

// makeBase makes a base, and removes what is older than the time that must stay reachable.
func (a *Shard) makeBase(ctx context.Context, open func(context.Context, backup.Held) (backup.Source, error)) error {
	began := time.Now()
	a.cutting.Lock()
	err := a.own(ctx)
	if err == nil && a.shared.on {
		err = a.locate(ctx)
	}
	a.cutting.Unlock()
	if err != nil || a.shared.on && a.nextShared() == nil { // another node was faster
		return err
	}
	// The newest backup stays in any case. One that is older than all that must be reachable is needed as the beginning,
	// and is at most one interval older.
	a.in.based.Lock()
	r, err := backup.Make(ctx, a.o.Place, a.openBase(open),
		backup.Options{Keep: 1, KeepFor: a.o.Keep + a.o.Base, Now: a.o.Now})
	a.in.based.Unlock()
	if err != nil {
		return err
	}
	if r.Log == nil {
		return errors.New("the base does not say where it is in the log")
	}
	// The timeline may have ended while the base was made.
	a.cutting.Lock()
	current := a.state.Timeline == r.Log.Timeline
	switch {
	case current:
		a.state.Base = r.Log.At
		err = a.state.save(a.dir)
		a.publish()
	case a.shared.on && a.shared.next == r.Log.Timeline:
		err = a.begun(ctx, r.Manifest)
		current = err == nil
	}
	a.cutting.Unlock()
	if !current { // a gap, meanwhile: the next base belongs to the timeline after it
		return nil
	}
	a.o.Log.Info("base of the archive made", "to", a.o.Place.String(), "name", r.Name, "bytes", r.Bytes, "new", r.New,
		"took", time.Since(began).Round(time.Millisecond).String())
	return errors.Join(err, a.tidy(ctx))
}

// openBase returns open for a base. What is to be sent again is noted, durably, before the list of the base can exist.
func (a *Shard) openBase(open func(context.Context, backup.Held) (backup.Source, error)) func(context.Context,
	backup.Held) (backup.Source, error) {
	if a.shared.on { // content is sent by references
		return open
	}
	return func(ctx context.Context, held backup.Held) (backup.Source, error) {
		a.mu.Lock()
		a.basing = true
		a.mu.Unlock()
		source, err := open(ctx, held)
		if err != nil {
			return nil, err
		}
		a.cutting.Lock()
		defer a.cutting.Unlock()
		a.mu.Lock()
		a.basing = false
		a.state.Resend = slices.Clone(a.resend) // fewer, if a cut has sent them since
		a.mu.Unlock()
		if err := a.state.save(a.dir); err != nil {
			return nil, errors.Join(err, source.Close())
		}
		return source, nil
	}
}

// tidy removes the segments that no base needs.
func (a *Shard) tidy(ctx context.Context) error {
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
