package workers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/lazuli-storage/lazuli/internal/sdk/jobrow"
	"github.com/lazuli-storage/lazuli/workers/internal/calls"
	"github.com/lazuli-storage/lazuli/workers/internal/trigger"
)

// JobState is the state of a job.
type JobState string

// The states of jobs.
const (
	// JobWaiting: not begun, or given back by an app that stopped, or snoozed.
	JobWaiting = JobState(jobrow.Waiting)
	// JobRunning: its handler runs, or the process died in which it did.
	JobRunning = JobState(jobrow.Running)
	// JobCancelling: it runs, and is to be cancelled.
	JobCancelling = JobState(jobrow.Cancelling)
	// JobRetrying: it has failed and is run again.
	JobRetrying = JobState(jobrow.Retrying)
	// JobDone: its handler has returned nil.
	JobDone = JobState(jobrow.Done)
	// JobPoisoned: it failed for good, and its message is in the poison queue. Put back into the queue, it runs again.
	JobPoisoned = JobState(jobrow.Poisoned)
	// JobCancelled: it was cancelled before it was done.
	JobCancelled = JobState(jobrow.Cancelled)
)

// JobStates returns all states, in the order in which a list shows them.
func JobStates() (all []JobState) {
	for _, s := range jobrow.States {
		all = append(all, JobState(s))
	}
	return all
}

// Ended reports whether a job in this state is not run any more.
func (s JobState) Ended() bool { return jobrow.State(s).Ended() }

// ErrCancelled is the cause of a cancelled handler context when its job was cancelled.
var ErrCancelled = calls.ErrCancelled

// ErrNoJob means that there is no job with an ID: there never was, or it has ended and is not kept any more.
var ErrNoJob = errors.New("workers: there is no such job")

// ErrJobEnded means that a job cannot be cancelled since it has ended. It is still there, because it is kept or was
// poisoned.
var ErrJobEnded = errors.New("workers: the job has ended")

// Job is the state of a queue message that was put by [Storage.EnqueueJob].
type Job struct {
	// ID is the queue, a dot, and letters and digits.
	ID    string   `json:"id"`
	Queue string   `json:"queue"`
	State JobState `json:"state"`
	// UniqueKey is that of the option Unique.
	UniqueKey string `json:"uniqueKey,omitempty"`
	// Function is the one that called its handler last, "" before the first attempt.
	Function string `json:"function,omitempty"`
	// Attempt is the number of attempts so far. One that was given back or snoozed does not count.
	Attempt int64     `json:"attempt"`
	Created time.Time `json:"created"`
	// Started is the beginning of the last attempt, Changed that of the state. RunAt is when a job that waits or retries
	// is due; zero: now. Expires is when one that has ended is removed. Times that do not apply are zero.
	Started time.Time `json:"started,omitzero"`
	Changed time.Time `json:"changed"`
	RunAt   time.Time `json:"runAt,omitzero"`
	Expires time.Time `json:"expires,omitzero"`
	// Errors are those of the last ten attempts that failed; in a list, the last one alone.
	Errors []JobError `json:"errors,omitempty"`
	// Progress and Result are what the handler has set last, as JSON. A list is without them.
	Progress json.RawMessage `json:"progress,omitempty"`
	Result   json.RawMessage `json:"result,omitempty"`
}

// JobError is the error of an attempt.
type JobError struct {
	Attempt int64     `json:"attempt"`
	At      time.Time `json:"at"`
	// Text has at most 1 KiB of it.
	Text string `json:"text"`
}

func jobOf(r jobrow.Row) *Job {
	j := &Job{ID: r.FullID(), Queue: r.Queue, State: JobState(r.State), UniqueKey: r.Key, Function: r.Function,
		Attempt: r.Attempt, Created: r.Created, Started: r.Started, Changed: r.Changed, RunAt: r.RunAt, Expires: r.Expires,
		Progress: r.Progress, Result: r.Result}
	for _, f := range r.Failures {
		j.Errors = append(j.Errors, JobError(f))
	}
	return j
}

// jobs returns the rows of the account.
func (s *Storage) jobs() (*jobrow.Store, error) {
	return trigger.OpenJobs(s.Tables)
}

// splitJobID returns the queue of a job and the rest of its ID. The error is ErrNoJob.
func splitJobID(id string) (queue, rest string, err error) {
	queue, rest, ok := jobrow.SplitID(id)
	if !ok {
		return "", "", fmt.Errorf("%w: %q is not the ID of a job, which is QUEUE.LETTERS", ErrNoJob, id)
	}
	return queue, rest, nil
}

// Job reads a job by its ID. The error is ErrNoJob if it is not there (any more).
func (s *Storage) Job(ctx context.Context, id string) (*Job, error) {
	queue, rest, err := splitJobID(id)
	if err != nil {
		return nil, err
	}
	store, err := s.jobs()
	if err != nil {
		return nil, err
	}
	r, err := store.Get(ctx, queue, rest)
	if errors.Is(err, jobrow.ErrNotFound) || err == nil && r.State == jobrow.Dropped {
		return nil, fmt.Errorf("%w: %s", ErrNoJob, id)
	}
	if err != nil {
		return nil, fmt.Errorf("workers: read the job %s: %w", id, err)
	}
	return jobOf(r), nil
}

// Jobs yields the jobs of a queue that are in one of the states, or in any if none is named: by state, those that
// entered it last first. It reads a hundred at a time, and none of other states.
func (s *Storage) Jobs(ctx context.Context, queue string, states ...JobState) iter.Seq2[*Job, error] {
	if len(states) == 0 {
		states = JobStates()
	}
	return func(yield func(*Job, error) bool) {
		store, err := s.jobs()
		if err != nil {
			yield(nil, err)
			return
		}
		for _, state := range states {
			// The rows of a state are together in the table, so that none of other states is read.
			for r, err := range store.List(ctx, queue, jobrow.State(state)) {
				if err != nil {
					yield(nil, fmt.Errorf("workers: list the jobs of %s: %w", queue, err))
					return
				}
				if !yield(jobOf(r), nil) {
					return
				}
			}
		}
	}
}

// JobQueues returns the queues that have jobs, or had some. It sends a request for each.
func (s *Storage) JobQueues(ctx context.Context) ([]string, error) {
	store, err := s.jobs()
	if err != nil {
		return nil, err
	}
	var queues []string
	for q, err := range store.Queues(ctx) {
		if err != nil {
			return queues, fmt.Errorf("workers: list the queues with jobs: %w", err)
		}
		queues = append(queues, q)
	}
	return queues, nil
}

// CancelJob cancels a job that waits or runs, in this process or another one, and returns its state after that. One
// that waits is cancelled by the call; its message is deleted when it becomes visible. One that runs is
// [JobCancelling]: within about two seconds its handler's context is cancelled with the cause [ErrCancelled], and the
// job is cancelled if the handler then returns an error, done if it returns nil. The error is ErrNoJob or ErrJobEnded.
func (s *Storage) CancelJob(ctx context.Context, id string) (JobState, error) {
	queue, rest, err := splitJobID(id)
	if err != nil {
		return "", err
	}
	store, err := s.jobs()
	if err != nil {
		return "", err
	}
	// The row alone is written. The process that runs the job reads it within two seconds.
	r, err := store.Cancel(ctx, queue, rest, time.Now())
	switch {
	case errors.Is(err, jobrow.ErrNotFound):
		return "", fmt.Errorf("%w: %s", ErrNoJob, id)
	case errors.Is(err, jobrow.ErrEnded):
		return JobState(r.State), fmt.Errorf("%w: %s is %s", ErrJobEnded, id, r.State)
	case err != nil:
		return "", fmt.Errorf("workers: cancel the job %s: %w", id, err)
	}
	return JobState(r.State), nil
}

// JobID returns the ID of the job whose handler has the context ctx, and false for a message that is no job.
func JobID(ctx context.Context) (string, bool) {
	j, ok := trigger.CurrentJob(ctx)
	if !ok {
		return "", false
	}
	return j.ID(), true
}

// ErrNotAJob means that SetResult or SetProgress was called for a message that is no job.
var ErrNotAJob = errors.New("workers: the context is not one of the handler of a job")

// SetResult sets the result of the job whose handler has the context ctx, as JSON of at most 60 KiB. It is stored when
// the handler returns nil, and kept as long as the job: see Keep. The last call counts.
func SetResult(ctx context.Context, v any) error {
	j, text, err := jobValue(ctx, v, "result", jobrow.MaxResult)
	if err == nil {
		j.SetResult(text)
	}
	return err
}

// SetProgress stores how far the job is whose handler has the context ctx, as JSON of at most 4 KiB: with a request.
// The error wraps ErrCancelled or ErrLeaseLost if the handler should end.
func SetProgress(ctx context.Context, v any) error {
	j, text, err := jobValue(ctx, v, "progress", jobrow.MaxProgress)
	if err == nil {
		err = j.SetProgress(ctx, text)
	}
	return err
}

func jobValue(ctx context.Context, v any, what string, most int) (*trigger.JobRun, []byte, error) {
	j, ok := trigger.CurrentJob(ctx)
	if !ok {
		return nil, nil, ErrNotAJob
	}
	text, err := json.Marshal(v)
	if err != nil {
		return nil, nil, fmt.Errorf("workers: the %s of a job: %w", what, err)
	}
	if len(text) > most {
		return nil, nil, fmt.Errorf("workers: the %s of a job has %d bytes; at most %d are allowed", what, len(text), most)
	}
	return j, text, nil
}
