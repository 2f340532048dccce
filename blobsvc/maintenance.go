package blobsvc

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/changefeed"
	"github.com/lazuli-storage/lazuli/blobsvc/internal/copysource"
	state "github.com/lazuli-storage/lazuli/internal/state/blob"
	"github.com/lazuli-storage/lazuli/internal/state/blob/encryption"
)

// clean does all background work but compaction now.
func (s *Service) clean(ctx context.Context) error {
	now := s.now()
	return errors.Join(s.state.Maintenance.ExpireBlobs(ctx, now), s.state.Maintenance.FlushAccesses(ctx),
		s.background.writeFeeds(ctx, now), s.state.Maintenance.Tidy(ctx, now))
}

// background runs background work in rounds. The pending work is in the state, so it continues after a restart.
type background struct {
	state  *state.Store
	feeds  *changefeed.Writer
	copies *copysource.Copier
	scopes *encryption.Scopes
	// accounts returns the accounts that are served, and served reports whether one is.
	accounts func() []string
	served   func(account string) bool
	full     func() bool // the disk is full; nil: it never is
	now      func() time.Time
	log      *slog.Logger
	wake     chan struct{}
}

// tidyEvery is the interval of scans of data without an index by time.
const tidyEvery = time.Hour

// Wake asks for a round before the pause is over.
func (b *background) Wake() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// run works until ctx is done, with a pause between two rounds.
func (b *background) run(ctx context.Context, every time.Duration) {
	timer := time.NewTimer(every)
	defer timer.Stop()
	var tidied time.Time
	failing := map[string]bool{} // what has failed in the last round, which was logged when it began
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-b.wake:
		}
		now := b.now()
		before := failing
		failing = map[string]bool{}
		for _, err := range b.round(ctx, now, now.Sub(tidied) >= tidyEvery) {
			failing[err.what] = true
			// Work that fails because the service closes is no error. What fails in each round is said once: a node without a
			// majority, or with a full disk, would say it each second.
			if ctx.Err() == nil && !before[err.what] {
				b.log.Error(err.what+" failed; trying again", "service", "blob", "err", err.err)
			}
		}
		if now.Sub(tidied) >= tidyEvery {
			tidied = now
		}
		timer.Reset(every)
	}
}

// failedWork is background work that failed.
type failedWork struct {
	what string
	err  error
}

// round does all background work that is due. tidy also includes the work that needs a scan.
func (b *background) round(ctx context.Context, now time.Time, tidy bool) (failed []failedWork) {
	collect := b.state.Maintenance.Collect
	if tidy {
		collect = b.state.Maintenance.Tidy
	}
	do := func(what string, err error) {
		if err != nil {
			failed = append(failed, failedWork{what, err})
		}
	}
	worker, err := b.state.Membership.Claim(now)
	do("claiming the background work of the cluster", err)
	if worker {
		do("deleting expired blobs", b.state.Maintenance.ExpireBlobs(ctx, now))
		do("writing the change feed", b.writeFeeds(ctx, now))
		do("removing deleted data", b.remove(ctx, func(ctx context.Context) error { return collect(ctx, now) }))
	}
	if b.state.Membership.Replicated() {
		do("continuing copies", b.continueCopies(worker))
		for _, account := range b.accounts() { // scopes that an account was given while the process runs
			do("creating keys of encryption scopes", b.scopes.Declare(account))
		}
	}
	do("writing access times", b.state.Maintenance.FlushAccesses(ctx))
	do("compacting extents", b.state.Maintenance.CompactDue(ctx, now, b.full != nil && b.full(), worker))
	return failed
}

// writeFeeds writes the change feeds of the accounts that are served and have one: with thousands of accounts, asking
// each of them every second would cost more than the feeds.
func (b *background) writeFeeds(ctx context.Context, now time.Time) error {
	list, err := b.state.Feed.Accounts()
	if err != nil {
		return err
	}
	return b.feeds.Write(ctx, slices.DeleteFunc(list, func(name string) bool { return !b.served(name) }), now)
}

// maxRemoval is the time after which removing deleted data lets the other work of a round go first.
const maxRemoval = 5 * time.Second

// remove calls fn with a limit of time. If fn reaches it, another round follows at once.
func (b *background) remove(ctx context.Context, fn func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, maxRemoval)
	defer cancel()
	err := fn(limited)
	if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		b.Wake()
		return nil
	}
	return err
}

// continueCopies makes this node of a cluster continue all pending copies if it is the worker, and none otherwise.
func (b *background) continueCopies(worker bool) error {
	if !worker {
		b.copies.StopAll()
		return nil
	}
	return b.copies.Resume()
}
