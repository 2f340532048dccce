package workers

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/sdk/jobrow"
	"github.com/lazuli-storage/lazuli/internal/sdk/poison"
	"github.com/lazuli-storage/lazuli/internal/sdk/sdkerr"
	"github.com/lazuli-storage/lazuli/workers/internal/queues"
	"github.com/lazuli-storage/lazuli/workers/internal/timertrigger"
)

// The moments around the effects of a job in the program that enqueues it.
var (
	pointJobPut      = fault.Declare("jobs/after-put")
	pointJobInserted = fault.Declare("jobs/after-insert")
	pointJobShown    = fault.Declare("jobs/after-show")
)

// jobHidden is the time for which the message of a job is hidden while its row is inserted, at first. An insert that
// takes longer fails, and the job is enqueued once more with twice the time.
const jobHidden = 5 * time.Second

// Unique makes EnqueueJob put at most one job with the key into the queue: a second one is not put while the first
// waits, runs or is retried. The key has 1 to 1024 bytes.
func Unique(key string) EnqueueOption { return func(s *enqueueSettings) { s.job.key = &key } }

// UniqueFor, with Unique, holds the key for at least d from the time when the job was put, also after it has ended.
func UniqueFor(d time.Duration) EnqueueOption { return func(s *enqueueSettings) { s.job.period = d } }

// Keep keeps the row of a job that is done for d, in whole seconds, with its result. Without it, the row is removed at
// the end. Rows of cancelled jobs are kept for at least an hour, of poisoned ones for at least seven days.
func Keep(d time.Duration) EnqueueOption { return func(s *enqueueSettings) { s.job.keep = d } }

// Enqueued is what EnqueueJob has done.
type Enqueued struct {
	// ID is the job's, for Job and CancelJob.
	ID string `json:"id"`
	// Duplicate is true if nothing was put, since the job of that ID has the unique key.
	Duplicate bool `json:"duplicate,omitempty"`
}

// EnqueueJob puts a job into a queue of the account of the function whose handler calls it; ctx is the handler's
// context. See [Storage.EnqueueJob].
func EnqueueJob(ctx context.Context, queue string, body any, options ...EnqueueOption) (Enqueued, error) {
	b, ok := ctx.Value(boundKey{}).(bound)
	if !ok {
		return Enqueued{}, outside("EnqueueJob")
	}
	e, err := b.storage.EnqueueJob(ctx, queue, body, options...)
	if err == nil {
		b.app.Wake(queue)
	}
	return e, err
}

// EnqueueJob puts a message into a queue as a job: it has an ID and a row in the table "lazulijobs", by which it can be
// unique, cancelled, listed, and keep its result. An app of package workers handles it as every message of the queue,
// any other receiver cannot decode it. The body and the options are those of [Storage.Enqueue], except that a job does
// not expire.
//
// The message is put first, hidden, then the row is inserted, then the message is shown. So no crash leaves a job
// without a message; a message whose row is not there is dropped. After an error the job may or may not be there; with
// Unique, a second call says.
func (s *Storage) EnqueueJob(ctx context.Context, queue string, body any, options ...EnqueueOption) (Enqueued, error) {
	settings := enqueueSettings{encoding: Base64, ttl: -1}
	for _, o := range options {
		o(&settings)
	}
	text, err := encoded(body)
	if err == nil {
		err = settings.validateJob(queue)
	}
	if err != nil {
		return Enqueued{}, fmt.Errorf("workers: enqueue a job: %w", err)
	}
	if s.Queues == nil {
		return Enqueued{}, errors.New("workers: enqueue a job: the connection string has no queue endpoint")
	}
	store, err := s.jobs()
	if err != nil {
		return Enqueued{}, err
	}
	text = withTraceParent(text, TraceParent(ctx))
	written := string(text)
	if settings.encoding == Base64 {
		written = base64.StdEncoding.EncodeToString(text)
	}
	for hidden := jobHidden; ; hidden = min(2*hidden, time.Hour) {
		e, err := s.enqueueJob(ctx, store, queue, written, hidden, settings)
		held := (*jobrow.HeldError)(nil)
		switch {
		case errors.As(err, &held):
			return Enqueued{held.ID(), true}, nil
		case errors.Is(err, jobrow.ErrEnded):
			// This process has slept so long that a worker met the message without its row, and dropped it. Again, with
			// another ID.
		case err != nil:
			return Enqueued{}, fmt.Errorf("workers: enqueue a job to %s: %w", queue, err)
		default:
			return e, nil
		}
	}
}

// validateJob checks the options of a job.
func (s enqueueSettings) validateJob(queue string) error {
	j := s.job
	if s.ttl != -1 {
		return errors.New("a job does not expire: TimeToLive is not possible")
	}
	if err := errors.Join(s.validate(), queues.ValidateName(queue)); err != nil {
		return err
	}
	// A job that fails for good stays visible by its message in the poison queue.
	switch {
	case strings.HasSuffix(queue, poison.Suffix) || queues.ValidateName(queue+poison.Suffix) != nil:
		return fmt.Errorf("jobs need a queue that has a poison queue, and %q has none", queue)
	case j.key != nil && (*j.key == "" || len(*j.key) > jobrow.MaxKey):
		return fmt.Errorf("a unique key of %d bytes; it has 1 to %d", len(*j.key), jobrow.MaxKey)
	case j.period < 0 || j.keep < 0:
		return errors.New("a negative time in UniqueFor or Keep")
	case j.period > maxKeep || j.keep > maxKeep:
		return fmt.Errorf("UniqueFor and Keep are at most %d days", int(maxKeep/(24*time.Hour)))
	case j.period > 0 && j.key == nil:
		return errors.New("UniqueFor needs Unique")
	}
	return nil
}

// maxKeep bounds the times of Keep and UniqueFor: ten years.
const maxKeep = 3650 * 24 * time.Hour

// enqueueJob puts one job. The error is a HeldError if another one has its key, or ErrEnded if its message was dropped
// before the row came.
func (s *Storage) enqueueJob(ctx context.Context, store *jobrow.Store, queue, body string, hidden time.Duration,
	settings enqueueSettings) (Enqueued, error) {
	now := time.Now()
	key := ""
	if settings.job.key != nil {
		key = *settings.job.key
		// Most duplicates are found by this one request. The insert below decides.
		if err := store.Free(ctx, queue, key, now); err != nil {
			return Enqueued{}, err
		}
	}
	r := jobrow.New(queue, key, now)
	r.KeepSeconds = int64(queues.WholeSeconds(settings.job.keep) / time.Second)
	if settings.job.period > 0 {
		r.KeyUntil = now.Add(settings.job.period)
	}
	if settings.after > 0 {
		r.RunAt = now.Add(settings.after)
	}
	// A message with a longer delay needs not to be shown by a request of its own.
	hidden = max(hidden, settings.after)
	messages := queues.New(s.Queues.NewQueueClient(queue))
	text := jobrow.Mark{ID: r.FullID(), Token: r.Token}.Text(body)
	m, err := timertrigger.PutHidden(ctx, messages.Client, text, hidden, -1)
	if err != nil {
		return Enqueued{}, err
	}
	if err := fault.Point(pointJobPut); err != nil {
		return Enqueued{}, err
	}
	if err := store.Insert(ctx, &r, now); err != nil {
		held := (*jobrow.HeldError)(nil)
		if errors.As(err, &held) {
			_ = messages.Delete(ctx, m) // If it stays, it is dropped when it appears.
		}
		return Enqueued{}, err
	}
	if err := fault.Point(pointJobInserted); err != nil {
		return Enqueued{}, err
	}
	if hidden > settings.after {
		// The job is there, even if the caller has given up by now. The message appears by itself if this fails.
		if _, err := messages.Client.UpdateMessage(context.WithoutCancel(ctx), m.ID, m.Receipt, text,
			&azqueue.UpdateMessageOptions{VisibilityTimeout: queues.Seconds(settings.after)}); err != nil &&
			!errors.Is(queues.Failure(err), queues.ErrNotHeld) { // It has appeared, and a worker has it.
			slog.Default().Warn("cannot show the message of a job; it appears by itself", "job", r.FullID(), "err",
				sdkerr.Short(err))
		}
	}
	return Enqueued{ID: r.FullID()}, fault.Point(pointJobShown)
}
