package hostrow

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"

	"github.com/lazuli-storage/lazuli/internal/sdk/sdkerr"
)

// Reporter writes the heartbeats of a process.
type Reporter struct {
	Store Store
	// Process is what stays the same; Snapshot returns what changes. A process without functions has no row.
	Process  Process
	Snapshot func() (functions []Function, stopping bool)
	// Apply pauses and resumes functions; nil is a process that cannot. It returns when the functions obey.
	Apply func(paused map[string]bool)
	// Timer returns a channel that receives once after a time, and what stops it.
	Timer func(time.Duration) (<-chan time.Time, func())
	Log   *slog.Logger

	failing bool // the last request failed, which was logged
	refused bool // the account does not permit it: nothing more is tried
	written []Function
	away    bool // the row is not there
	tried   bool // it may be there: an attempt to write it may have succeeded without an answer
}

const (
	// looks is how often pauses are read in the interval of a heartbeat.
	looks = 2
	// sweepEvery is how many heartbeats lie between two removals of forgotten rows.
	sweepEvery = 360
	// attempt bounds the requests of a heartbeat, and those of the end.
	attempt = 10 * time.Second
	leaving = 2 * time.Second
)

// Begin reads the pauses for the first time, so that a paused function does not begin. It waits at most for a moment.
func (r *Reporter) Begin(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, leaving)
	defer cancel()
	r.away = true
	r.look(ctx)
}

// Run writes heartbeats until ctx is done, and then removes the row.
func (r *Reporter) Run(ctx context.Context) {
	for n := 0; ctx.Err() == nil && !r.refused; n++ {
		r.tick(ctx, n)
		wait, stop := r.Timer(r.Process.Every / looks)
		select {
		case <-wait:
		case <-ctx.Done():
		}
		stop()
	}
	if !r.tried || r.refused {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaving)
	defer cancel()
	r.after(r.Store.Leave(ctx, r.Process), "remove")
}

// tick reads the pauses, and writes a heartbeat if it is due, or if what others wait for has changed.
func (r *Reporter) tick(ctx context.Context, n int) {
	ctx, cancel := context.WithTimeout(ctx, attempt)
	defer cancel()
	if n > 0 { // Begin has just done it
		r.look(ctx)
	}
	p := r.Process
	p.Functions, p.Stopping = r.Snapshot()
	switch {
	case len(p.Functions) == 0:
		if !r.away && r.after(r.Store.Leave(ctx, p), "remove") {
			r.away, r.tried = true, false
		}
	case n%looks == 0 || r.away || !slices.EqualFunc(p.Functions, r.written, samePause):
		r.tried = true
		if r.after(r.Store.Beat(ctx, p), "write") {
			r.written, r.away = p.Functions, false
		}
	}
	if n%(looks*sweepEvery) == 0 {
		r.after(r.Store.Sweep(ctx), "clean up")
	}
}

func samePause(a, b Function) bool {
	return a.Name == b.Name && a.Paused == b.Paused && a.ByAccount == b.ByAccount
}

func (r *Reporter) look(ctx context.Context) {
	if r.Apply == nil || r.refused {
		return
	}
	if paused, err := r.Store.Paused(ctx, r.Process.App); r.after(err, "read") {
		r.Apply(paused)
	}
}

// after logs the first of a series of failures, and returns whether the request succeeded. Where the account does not
// permit tables, nothing more is tried: workers need no tables themselves. A wrong key is tried again: it may be
// rotated.
func (r *Reporter) after(err error, what string) bool {
	var refusal *azcore.ResponseError
	switch {
	case err == nil:
		r.failing = false
		return true
	case errors.Is(err, context.Canceled) || r.refused:
	case errors.As(err, &refusal) && (refusal.StatusCode == http.StatusForbidden &&
		strings.HasPrefix(refusal.ErrorCode, "Authorization") || refusal.StatusCode == http.StatusNotImplemented):
		r.refused = true
		r.Log.Info("this process does not show in the account's list of workers: the account refuses it", "table", Table,
			"err", sdkerr.Short(err))
	case !r.failing:
		r.failing = true
		r.Log.Info("cannot "+what+" the rows about workers; trying again", "table", Table, "err", sdkerr.Short(err))
	}
	return false
}
