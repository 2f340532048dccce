package copysource

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	state "github.com/lazuli-storage/lazuli/internal/state/blob"
	"github.com/lazuli-storage/lazuli/internal/state/blob/content"
	"github.com/lazuli-storage/lazuli/internal/state/blob/encryption"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
)

const (
	// copyChunk is the size in bytes of a chunk of a pending copy.
	copyChunk = 16 << 20
	// copiesAtOnce is the maximum number of copies that run at the same time for one account. The limit is per account, so
	// that the slow sources of one do not delay the copies of others.
	copiesAtOnce = 8
	// copyAttempts is the number of attempts without progress after which a copy fails; copyMaxPause is the maximum pause
	// between two.
	copyAttempts = 10
	copyMaxPause = time.Minute
)

// Copier completes pending copies in the background. A copy continues after a restart with its next chunk, provided
// that the source still has its entity tag; a copy from a source without an entity tag begins again.
type Copier struct {
	CopierConfig
	root context.Context // of all copies
	stop context.CancelFunc
	done sync.WaitGroup

	mu sync.Mutex
	// slots limit the copies under way, by account.
	slots map[string]chan struct{}
	// running has the cancel function of each copy that runs or waits, by copy ID.
	running map[string]context.CancelFunc
}

// CopierConfig configures a [Copier]. All fields are required.
type CopierConfig struct {
	State   *state.Store
	Scopes  *encryption.Scopes
	Sources *Fetcher
	// Pause is the pause before the next attempt; it grows with each failure. 0 means a second.
	Pause time.Duration
	Now   func() time.Time
	Log   *slog.Logger
	// Errors maps the errors of the state to Azure's.
	Errors func(error) error
}

// NewCopier returns a copier without copies. The caller must close it.
func NewCopier(c CopierConfig) *Copier {
	if c.Pause <= 0 {
		c.Pause = time.Second
	}
	p := &Copier{CopierConfig: c, slots: map[string]chan struct{}{}, running: map[string]context.CancelFunc{}}
	p.root, p.stop = context.WithCancel(context.Background())
	return p
}

// Close ends the work on all copies, which stay pending.
func (p *Copier) Close() {
	p.stop()
	p.done.Wait()
}

// Resume continues the copies that are pending.
func (p *Copier) Resume() error {
	jobs, err := p.State.Copies.Pending()
	for i := range jobs {
		p.Start(&jobs[i])
	}
	return err
}

// Start runs a job in the background, unless it runs already.
func (p *Copier) Start(job *record.CopyJob) {
	ctx, cancel := context.WithCancel(p.root)
	p.mu.Lock()
	if p.running[job.ID] != nil {
		p.mu.Unlock()
		cancel()
		return
	}
	p.running[job.ID] = cancel
	slots := p.slotsOf(job.Account)
	p.mu.Unlock()
	p.done.Go(func() {
		defer func() {
			cancel()
			p.mu.Lock()
			delete(p.running, job.ID)
			p.mu.Unlock()
		}()
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
			p.run(ctx, job)
		case <-ctx.Done():
		}
	})
}

// slotsOf returns the slots of an account. The caller holds mu.
func (p *Copier) slotsOf(account string) chan struct{} {
	if p.slots[account] == nil {
		p.slots[account] = make(chan struct{}, copiesAtOnce)
	}
	return p.slots[account]
}

// Stop ends the work on a copy that was aborted.
func (p *Copier) Stop(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if cancel := p.running[id]; cancel != nil {
		cancel()
	}
}

// StopAll ends the work on all copies, which stay pending: another node of a cluster continues them.
func (p *Copier) StopAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, cancel := range p.running {
		cancel()
	}
}

// run completes a copy, or leaves it pending when ctx ends.
func (p *Copier) run(ctx context.Context, job *record.CopyJob) {
	pause := p.Pause
	for attempt := 1; ; attempt++ {
		moved, err := p.transfer(ctx, job)
		if err == nil || errors.Is(err, state.ErrCopyGone) || ctx.Err() != nil {
			return
		}
		if moved {
			attempt, pause = 1, p.Pause
		}
		if p.final(err) || attempt >= copyAttempts {
			p.Log.Warn("copy failed", "service", "blob", "copy", job.ID, "err", err)
			if err := p.State.Copies.Fail(job, p.describe(err), p.Now()); err != nil && !errors.Is(err, state.ErrCopyGone) {
				p.Log.Error("recording a failed copy failed", "service", "blob", "copy", job.ID, "err", err)
			}
			return
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		pause = min(2*pause, copyMaxPause)
	}
}

// final reports whether another attempt cannot succeed.
func (p *Copier) final(err error) bool {
	var e *wire.Error
	return errors.As(p.Errors(err), &e) && e.Status < 500 && e.Status != http.StatusTooManyRequests &&
		e.Status != http.StatusRequestTimeout
}

// describe returns the x-ms-copy-status-description of a failed copy: status, code and message.
func (p *Copier) describe(err error) string {
	var e *wire.Error
	if errors.As(p.Errors(err), &e) {
		return strconv.Itoa(e.Status) + " " + e.Code + ` "Copy failed when reading the source."`
	}
	return strconv.Itoa(wire.ErrInternal.Status) + " " + wire.ErrInternal.Code + ` "Copy failed."`
}

// transfer fetches the rest of a copy and completes it. moved is set if a chunk arrived.
func (p *Copier) transfer(ctx context.Context, job *record.CopyJob) (moved bool, err error) {
	var b record.Blob
	stored, err := p.State.Copies.Load(job, &b)
	if err != nil {
		return false, err
	}
	if stored.Snapshot != 0 {
		return p.transferSnapshot(ctx, &stored, &b)
	}
	at, total := b.Copy.Copied, b.Copy.Total
	if at > 0 && stored.ETag == "" {
		if err := p.State.Copies.Rewind(job, p.Now()); err != nil {
			return false, err
		}
		at = 0
	}
	if at < total {
		if moved, err = p.fetch(ctx, &stored, &b, at); err != nil {
			return moved, err
		}
	}
	return moved, p.State.Copies.End(job, p.Now())
}

// fetch fetches the content of a source from an offset on, in chunks.
func (p *Copier) fetch(ctx context.Context, job *record.CopyJob, b *record.Blob, at int64) (moved bool, err error) {
	total := b.Copy.Total
	body, err := p.Sources.Get(ctx, &Source{URL: job.URL, Intent: job.Intent}, state.Range{Start: at, End: state.OpenEnd},
		job.ETag)
	if err != nil {
		return false, err
	}
	defer func() { _ = body.Close() }()
	if body.Blob.Length != total || body.Length != total-at {
		return false, errSourceChanged
	}
	for at < total {
		n := min(copyChunk, total-at)
		up, err := p.store(job, b.Encryption, body, n)
		if err != nil {
			return moved, err
		}
		err = p.State.Copies.AddChunk(job, at, up, p.Now())
		up.Close()
		if err != nil {
			return moved, err
		}
		at, moved = at+n, true
	}
	return moved, nil
}

// store makes n bytes of a source durable. The caller closes the upload.
func (p *Copier) store(job *record.CopyJob, id encryption.ID, r io.Reader, n int64) (*content.Upload, error) {
	sealer, err := p.Scopes.NewSealer(job.Account, id, nil)
	if err != nil {
		return nil, err
	}
	up, err := content.Store(p.State.Extents(), r, n, content.Options{Sealer: sealer})
	return up, Broken(err)
}

// Broken maps the error of an interrupted source to the error to respond with. It returns other errors, and nil,
// unchanged.
func Broken(err error) error {
	var body *content.BodyError
	if errors.As(err, &body) {
		return errTimeout
	}
	return err
}

// transferSnapshot fetches the rest of an incremental copy and completes it. It fetches only the pages that differ from
// the snapshot that was copied before, according to the source's Get Page Ranges. A copy that continues requests the
// ranges again and skips the part that has arrived; the source is a snapshot and does not change.
func (p *Copier) transferSnapshot(ctx context.Context, job *record.CopyJob, b *record.Blob) (moved bool, err error) {
	changed, cleared, err := p.Sources.changes(ctx, job, b.Incremental.Last, b.Copy.Total)
	if err != nil {
		return false, err
	}
	for at := b.Copy.Copied; ; {
		var batch []record.Span
		if batch, changed = nextBatch(changed, at); len(batch) == 0 {
			break
		}
		up, err := p.fetchSpans(ctx, job, b, batch)
		if err != nil {
			return moved, err
		}
		err = p.State.Copies.AddSpans(job, batch, up, p.Now())
		up.Close()
		if err != nil {
			return moved, err
		}
		at, moved = batch[len(batch)-1].End, true
	}
	return moved, p.State.Copies.EndSnapshot(job, cleared, p.Now())
}

// fetchSpans stores ranges of the source durably, one after another. The caller closes the upload.
func (p *Copier) fetchSpans(ctx context.Context, job *record.CopyJob, b *record.Blob,
	batch []record.Span) (*content.Upload, error) {
	first, last := batch[0].Start, batch[len(batch)-1].End
	body, err := p.Sources.Get(ctx, &Source{URL: job.URL, Intent: job.Intent}, state.Range{Start: first, End: last - 1},
		job.ETag)
	if err != nil {
		return nil, err
	}
	defer func() { _ = body.Close() }()
	if body.Blob.Length != b.Copy.Total || body.Length != last-first {
		return nil, errSourceChanged
	}
	var n int64
	for _, x := range batch {
		n += x.End - x.Start
	}
	return p.store(job, b.Encryption, &spanReader{r: body, at: first, spans: batch}, n)
}
