package blobsvc

import (
	"context"
	"log/slog"
	"time"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/changefeed"
	"github.com/lazuli-storage/lazuli/blobsvc/internal/state"
)

// background runs background work in rounds. The pending work is in the state, so it continues after a restart.
type background struct {
	state *state.Store
	feeds *changefeed.Writer
	// accounts returns the accounts whose change feeds are written.
	accounts func() []string
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
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-b.wake:
		}
		now := b.now()
		for _, err := range b.round(ctx, now, now.Sub(tidied) >= tidyEvery) {
			if ctx.Err() == nil {
				b.log.Error(err.what+" failed", "service", "blob", "err", err.err)
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
	collect := b.state.Collect
	if tidy {
		collect = b.state.Tidy
	}
	for _, work := range [...]struct {
		what string
		do   func() error
	}{
		{"deleting expired blobs", func() error { return b.state.ExpireBlobs(ctx, now) }},
		{"writing the change feed", func() error { return b.feeds.Write(ctx, b.accounts(), now) }},
		{"writing access times", func() error { return b.state.FlushAccesses(ctx) }},
		{"removing deleted data", func() error { return collect(ctx, now) }},
		{"compacting extents", func() error { return b.state.CompactDue(ctx, now) }},
	} {
		if err := work.do(); err != nil {
			failed = append(failed, failedWork{work.what, err})
		}
	}
	return failed
}
