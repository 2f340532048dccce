package blobsvc

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/changefeed"
	"github.com/lazuli-storage/lazuli/blobsvc/internal/copysource"
	"github.com/lazuli-storage/lazuli/blobsvc/internal/encryption"
	"github.com/lazuli-storage/lazuli/blobsvc/internal/state"
	"github.com/lazuli-storage/lazuli/internal/storage/extent"
	"github.com/lazuli-storage/lazuli/internal/storage/replog"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// Clean does all background work but compaction now.
func (s *Service) Clean(ctx context.Context) error {
	now := s.now()
	return errors.Join(s.state.Maintenance.ExpireBlobs(ctx, now), s.state.Maintenance.FlushAccesses(ctx),
		s.background.feeds.Write(ctx, s.accounts.Names(), now), s.state.Maintenance.Tidy(ctx, now))
}

// Compact gives space back, see [extent.Store.Compact].
func (s *Service) Compact(ctx context.Context, o extent.CompactOptions) (extent.Compacted, error) {
	return s.state.Maintenance.Compact(ctx, o)
}

// Audit is the result of [Check].
type Audit = state.Audit

// Check opens the state of a stopped service and reports every violation of an invariant, see the comment of package
// state. It changes nothing. An error means that the check could not run to its end.
func Check(path, extents string, report func(error)) (Audit, error) {
	return state.Check(path, extents, report, nil)
}

// CheckWithProgress is Check that calls progress with the bytes of content that it has read.
func CheckWithProgress(path, extents string, report func(error), progress func(read int64)) (Audit, error) {
	return state.Check(path, extents, report, progress)
}

// Names names for people what keys of the file belong to.
type Names = state.Names

// Describe calls fn with the names in the file at path.
func Describe(path string, fn func(*Names)) error { return state.Describe(path, fn) }

// RepairOptions configure [Repair].
type RepairOptions = state.RepairOptions

// Repair puts in order what damage left in the file at path, of a service that is stopped: the trees of accounts with a
// hierarchical namespace, and what can be derived from other records.
func Repair(path string, o RepairOptions) error { return state.Repair(path, o) }

// Doubtful reports whether what a repair lost may tell what was deleted, see [RepairOptions].
func Doubtful(lost []store.Loss) bool { return state.Doubtful(lost) }

// CheckScopes reads the keys of encryption scopes in the file at path, if it exists. It returns an error if they are
// damaged.
func CheckScopes(path string) error {
	_, err := encryption.OpenScopes(path, func(string) []string { return nil })
	return err
}

// Buckets are the names of the buckets in the file of a Blob service.
func Buckets() []store.Bucket { return state.Buckets() }

// Recover writes what a crash left in the log of a stopped service to its places, in the file at path and in the
// extents.
func Recover(path, extents string) error { return state.Recover(path, extents) }

// Database returns the database, to be pinned with those of the other services.
func (s *Service) Database() *store.DB { return s.state.Database() }

// Hold keeps the content that the database refers to until release is called.
func (s *Service) Hold() (release func()) { return s.state.Hold() }

// BackupContent calls emit with the content that a pinned database refers to, see [extent.Store.Backup]. Hold was
// called before the database was pinned.
func (s *Service) BackupContent(ctx context.Context, pin *store.Pin, held func(extent.Window) []extent.Range,
	emit func(extent.Content) error) error {
	return s.state.BackupContent(ctx, pin, held, emit)
}

// Adopt completes files that were written from a backup, those of a server alone: the database at path, the content in
// the folder extents. It writes the keys of encryption scopes that a cluster keeps in its database to the file keys.
func Adopt(path, extents, keys string) error { return state.Adopt(path, extents, keys) }

// Settle opens and closes the state of a stopped service: files of former releases are converted, and what a crash left
// is put in order. keys is the file with the keys of encryption scopes.
func Settle(path, extents, keys string) error { return state.Settle(path, extents, keys) }

// Seed creates the replicated log of a cluster from the file of a service that was stopped and settled. keys is the
// file with the keys of encryption scopes, node the name that the cluster has for the data folder.
func Seed(ctx context.Context, path, keys, node string, c replog.Config) error {
	return state.Seed(ctx, path, keys, node, c)
}

// References calls yield for every slice that the records in the file at path refer to, until yield returns false.
func References(path string, yield func(extent.Ref) bool) error { return state.References(path, yield) }

// CompactFolder gives back all the space that it can, in the state of a service that is stopped: it removes garbage and
// rewrites extents until they have no unreferenced content. It moves at most bytesPerSecond; 0 means no limit. before
// and after are the sizes of the extents in bytes. It can be stopped at any time by ctx; what was done by then stays
// done.
func CompactFolder(ctx context.Context, path, extents string, bytesPerSecond int64,
	progress func(moved, total int64)) (before, after int64, err error) {
	return state.CompactFolder(ctx, path, extents, bytesPerSecond, progress)
}

// Audit checks a service that runs, for tests: no request may be under way.
func (s *Service) Audit(report func(error)) (state.Audit, error) {
	return s.state.Maintenance.Audit(report)
}

// background runs background work in rounds. The pending work is in the state, so it continues after a restart.
type background struct {
	state  *state.Store
	feeds  *changefeed.Writer
	copies *copysource.Copier
	scopes *encryption.Scopes
	// accounts returns the accounts whose change feeds are written.
	accounts func() []string
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
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-b.wake:
		}
		now := b.now()
		for _, err := range b.round(ctx, now, now.Sub(tidied) >= tidyEvery) {
			// Work that fails because the service closes is no error.
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
		do("writing the change feed", b.feeds.Write(ctx, b.accounts(), now))
		do("removing deleted data", b.remove(ctx, func(ctx context.Context) error { return collect(ctx, now) }))
	}
	if b.state.Membership.Replicated() {
		do("continuing copies", b.continueCopies(worker))
		for _, account := range b.accounts() { // scopes that an account was given while the process runs
			do("creating keys of encryption scopes", b.scopes.Declare(account))
		}
	}
	do("writing access times", b.state.Maintenance.FlushAccesses(ctx))
	do("compacting extents", b.state.Maintenance.CompactDue(ctx, now, b.full != nil && b.full()))
	return failed
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

// Usage is the space that the service's state takes, and the work on it since it was opened.
type Usage = state.Usage

// Usage returns the space that the service's state takes.
func (s *Service) Usage() (Usage, error) { return s.state.Maintenance.Usage() }
