package trigger

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/sdk/jobrow"
	"github.com/lazuli-storage/lazuli/internal/sdk/sdkerr"
	"github.com/lazuli-storage/lazuli/tables"
	"github.com/lazuli-storage/lazuli/workers/internal/calls"
	"github.com/lazuli-storage/lazuli/workers/internal/queues"
)

type jobKey struct{}

// WithJob returns the context of the handler of a job.
func WithJob(ctx context.Context, j *JobRun) context.Context {
	return context.WithValue(ctx, jobKey{}, j)
}

// CurrentJob returns the job whose handler has the context ctx; false for a message that is no job.
func CurrentJob(ctx context.Context) (*JobRun, bool) {
	j, ok := ctx.Value(jobKey{}).(*JobRun)
	return j, ok
}

// ID is the job's ID.
func (j *JobRun) ID() string { return j.mark.ID }

// The moments around the effects of a job in its worker.
var (
	pointJobStarted  = fault.Declare("jobs/after-start")
	pointJobPoisoned = fault.Declare("jobs/after-poison-put")
	pointJobEnded    = fault.Declare("jobs/after-end")
)

// JobRun is the attempt of a job by one delivery of its message.
type JobRun struct {
	mark      jobrow.Mark
	store     *jobrow.Store // nil before start
	cancelled chan struct{} // closed when the job is to be cancelled
	once      sync.Once

	mu      sync.Mutex // guards the next fields
	row     jobrow.Row // as it was read or written last
	started bool       // the row says that this attempt runs
	refused bool       // the message is poisoned, and its job is not touched
	result  []byte
}

// jobIn returns the job of a message and the message's body, still encoded. A message in another queue than its job's,
// as one that a program reads from a poison queue, is no job there. It costs messages that are no jobs a comparison.
func jobIn(queue, text string) (*JobRun, string) {
	mark, body, ok := jobrow.ParseMark(text)
	if !ok {
		return nil, text
	}
	if of, _, _ := jobrow.SplitID(mark.ID); of != queue {
		return nil, body
	}
	return &JobRun{mark: mark, cancelled: make(chan struct{})}, body
}

// cancel tells the handler that the job is to be cancelled.
func (j *JobRun) cancel() { j.once.Do(func() { close(j.cancelled) }) }

// wasCancelled returns the channel that is closed when the job is to be cancelled; nil for a message that is no job.
func (j *JobRun) wasCancelled() <-chan struct{} {
	if j == nil {
		return nil
	}
	return j.cancelled
}

// errJobOver means that a message is to be deleted without a call: its job has ended, or was never inserted.
var errJobOver = errors.New("workers: the job of the message is over")

// jobsAgain is the delay after which a message is tried again whose row cannot be read or written.
const jobsAgain = 5 * time.Second

// startJob writes into the row that the attempt has begun. It returns errJobOver if the handler is not to be called,
// and other errors as a handler would: Snooze if the rows cannot be reached.
func (d *delivery) startJob(ctx context.Context) error {
	j := d.job
	ctx = WithInvocation(ctx, d.invocation) // The requests for the row name their work, as the handler's do.
	err := d.beginJob(ctx)
	held := (*jobrow.HeldError)(nil)
	switch {
	case err == nil:
		d.l.jobs.add(j)
		return fault.Point(pointJobStarted)
	case errors.Is(err, errJobOver):
		return errJobOver
	case errors.As(err, &held):
		err = calls.Permanent(fmt.Errorf("put back, but %w", err))
		fallthrough
	case calls.IsPermanent(err):
		j.mu.Lock()
		j.refused = true
		j.mu.Unlock()
		return err
	case ctx.Err() != nil:
		return err
	}
	d.log.Warn("cannot write the state of the job; its message is tried again", "job", j.mark.ID, "err",
		sdkerr.Short(err))
	return calls.Snooze(jobsAgain)
}

func (d *delivery) beginJob(ctx context.Context) (err error) {
	j := d.job
	if j.store == nil {
		if j.store, err = d.l.env.jobs(); err != nil {
			return calls.Permanent(err)
		}
	}
	queue, id, _ := jobrow.SplitID(j.mark.ID)
	for {
		now := d.l.clock.Now()
		row, err := j.store.Get(ctx, queue, id)
		known := true
		switch {
		case errors.Is(err, jobrow.ErrNotFound) && !j.mark.Again:
			// The job has ended and is not kept. Or its sender has died, or sleeps: its insert must not succeed later.
			err := j.store.Drop(ctx, queue, id, now)
			if errors.Is(err, tables.ErrExists) {
				continue
			}
			return errors.Join(err, errJobOver)
		case errors.Is(err, jobrow.ErrNotFound):
			// It was poisoned longer ago than rows are kept.
			row, known = jobrow.New(queue, "", now), false
			row.ID, row.Token, row.RowKey = id, j.mark.Token, "j-"+id
		case err != nil:
			return err
		case row.State == jobrow.Dropped:
			return errJobOver
		case row.Token != j.mark.Token:
			return calls.Permanent(fmt.Errorf("the message names the job %s, and is not its message", j.mark.ID))
		}
		// Messages of a batch have one invocation.
		attempt := jobrow.Attempt{Function: d.l.function.Name, Host: d.l.env.HostID,
			Run: d.invocation.ID + " " + d.message.Receipt}
		next, run := row.Start(attempt, j.mark.Again, now)
		switch {
		case !known:
			err = j.store.Insert(ctx, &next, now)
		case next.State == row.State && !run:
			return errJobOver
		default:
			err = j.store.Change(ctx, row, &next, now)
		}
		if errors.Is(err, tables.ErrChanged) || errors.Is(err, tables.ErrNotFound) {
			continue // cancelled, or removed, in the meantime
		}
		if err != nil {
			return err
		}
		if !run {
			return errJobOver
		}
		if next.Run != attempt.Run {
			continue // Another message of the job was faster.
		}
		j.mu.Lock()
		j.row, j.started = next, true
		j.mu.Unlock()
		return nil
	}
}

// SetResult sets what is stored when the handler returns nil.
func (j *JobRun) SetResult(text []byte) {
	j.mu.Lock()
	j.result = text
	j.mu.Unlock()
}

// SetProgress writes the progress into the row.
func (j *JobRun) SetProgress(ctx context.Context, text []byte) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.row.State.Ended() {
		return fmt.Errorf("workers: the job %s has ended: %w", j.mark.ID, calls.ErrLeaseLost)
	}
	for {
		next := j.row
		next.Progress = text
		err := j.store.Save(ctx, &next)
		if err == nil {
			j.row = next
			return nil
		}
		if !errors.Is(err, tables.ErrChanged) && !errors.Is(err, tables.ErrNotFound) {
			return fmt.Errorf("workers: store the progress of the job %s: %w", j.mark.ID, err)
		}
		if err := j.reread(ctx); err != nil {
			return err
		}
		if j.row.State == jobrow.Cancelling {
			j.cancel()
			return calls.ErrCancelled
		}
	}
}

// reread reads the row after another process has changed it. The error wraps ErrNotHeld and ErrLeaseLost if another
// attempt has begun. The caller holds j.mu.
func (j *JobRun) reread(ctx context.Context) error {
	row, err := j.store.Get(ctx, j.row.Queue, j.row.ID)
	switch {
	case err != nil && !errors.Is(err, jobrow.ErrNotFound):
		return fmt.Errorf("workers: read the job %s: %w", j.mark.ID, err)
	case err != nil || row.Run != j.row.Run || row.State != jobrow.Running && row.State != jobrow.Cancelling:
		return fmt.Errorf("%w: %w: another attempt of the job has begun, or it was removed", queues.ErrNotHeld,
			calls.ErrLeaseLost)
	}
	j.row = row
	return nil
}

// settleJob writes into the row how the attempt has ended, before the action on the message, and returns the action:
// the message of a job that was cancelled is deleted. For a message that is to be poisoned, it only reads whether the
// job was cancelled; poisonedJob follows.
func (d *delivery) settleJob(ctx context.Context, e queues.Effect) (queues.Effect, error) {
	j := d.job
	if j == nil {
		return e, nil
	}
	if started, refused := j.status(); !started {
		if e.Kind != queues.DoPoison || refused {
			return e, nil
		}
		// It was received too often: the processes of earlier attempts died.
		switch err := d.startJob(ctx); {
		case err == errJobOver:
			return queues.Effect{Kind: queues.DoDelete}, nil
		case calls.IsPermanent(err): // The row is not this message's.
			return e, nil
		case err != nil:
			return e, err
		}
	}
	d.l.jobs.remove(j)
	ctx = WithInvocation(ctx, d.invocation)
	j.mu.Lock()
	defer j.mu.Unlock()
	now := d.l.clock.Now()
	o := jobrow.Outcome{State: jobrow.Done, Result: j.result}
	switch e.Kind {
	case queues.DoDelete:
		if d.facts.Outcome != nil { // cancelled
			o = jobrow.Outcome{State: jobrow.Cancelled}
		}
	case queues.DoRelease, queues.DoRequeue:
		o = jobrow.Outcome{State: jobrow.Waiting, At: now.Add(e.Delay)}
		if e.Kind == queues.DoRelease && !d.facts.Interrupted {
			o.State, o.Err = jobrow.Retrying, sdkerr.Text(d.facts.Outcome)
		}
	case queues.DoPoison:
		if err := j.reread(ctx); err != nil {
			return e, err
		}
		if j.row.State != jobrow.Cancelling {
			return e, nil
		}
		o.State = jobrow.Cancelled
	default:
		return e, nil
	}
	if err := j.finish(ctx, o, now); err != nil {
		return e, err
	}
	if err := fault.Point(pointJobEnded); err != nil {
		return e, err
	}
	if j.row.State == jobrow.Cancelled {
		e = queues.Effect{Kind: queues.DoDelete}
	}
	return e, nil
}

// poisonedJob writes that the job was poisoned, after its message was put into the poison queue: between the two, the
// message still starts it.
func (d *delivery) poisonedJob(ctx context.Context, reason string) error {
	j := d.job
	if j == nil {
		return nil
	}
	if started, _ := j.status(); !started {
		return nil
	}
	if err := fault.Point(pointJobPoisoned); err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if d.facts.Outcome != nil {
		reason = sdkerr.Text(d.facts.Outcome)
	}
	ctx = WithInvocation(ctx, d.invocation)
	return j.finish(ctx, jobrow.Outcome{State: jobrow.Poisoned, Err: reason}, d.l.clock.Now())
}

// poisonText returns the text that the job's message has in the poison queue: its mark says that the job may be started
// again. The text of a message that is no job stays as it is.
func (j *JobRun) poisonText(text string) string {
	if j == nil {
		return text
	}
	mark, body, _ := jobrow.ParseMark(text)
	mark.Again = true
	return mark.Text(body)
}

func (j *JobRun) status() (started, refused bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.started, j.refused
}

// finish writes how the attempt has ended. The caller holds j.mu.
func (j *JobRun) finish(ctx context.Context, o jobrow.Outcome, now time.Time) error {
	for {
		next, err := j.row.Finish(j.row.Run, o, now)
		if err != nil {
			return err
		}
		err = j.store.Change(ctx, j.row, &next, now)
		if err == nil {
			j.row = next
			return nil
		}
		if !errors.Is(err, tables.ErrChanged) && !errors.Is(err, tables.ErrNotFound) {
			return fmt.Errorf("write the state of the job %s: %w", j.mark.ID, err)
		}
		if err := j.reread(ctx); err != nil { // Usually it was asked to cancel it.
			return err
		}
	}
}

// jobWatch looks for the jobs that are to be cancelled among those that a function runs. It sends one request every two
// seconds as long as jobs run, however many.
type jobWatch struct {
	l *QueueListener

	mu      sync.Mutex // guards the next fields
	running map[string]*JobRun
	quit    chan struct{} // closed when none runs; nil before the first
	swept   time.Time     // the last time that expired rows were removed
}

const (
	jobWatchInterval = 2 * time.Second
	jobSweepInterval = time.Minute
)

// add watches a job until remove.
func (w *jobWatch) add(j *JobRun) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.running == nil {
		w.running = map[string]*JobRun{}
	}
	w.running[j.mark.ID] = j
	if len(w.running) == 1 {
		quit, first := make(chan struct{}), w.l.clock.NewTimer(jobWatchInterval)
		w.quit = quit
		w.l.working.Go(func() { w.watch(j.store, quit, first) })
	}
	if now := w.l.clock.Now(); now.Sub(w.swept) >= jobSweepInterval {
		w.swept = now
		w.l.working.Go(func() { w.sweep(j.store, now) })
	}
}

// remove stops watching a job. It may be called again.
func (w *jobWatch) remove(j *JobRun) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.running[j.mark.ID] != j {
		return
	}
	delete(w.running, j.mark.ID)
	if len(w.running) == 0 {
		close(w.quit)
	}
}

// watch cancels jobs until quit is closed. It looks when the timer fires, and then every interval.
func (w *jobWatch) watch(store *jobrow.Store, quit <-chan struct{}, timer calls.Timer) {
	// A request that hangs must not keep the app from stopping.
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		<-quit
		cancel()
	}()
	for ; ; timer = w.l.clock.NewTimer(jobWatchInterval) {
		select {
		case <-quit:
			timer.Stop()
			return
		case <-timer.C():
		}
		for r, err := range store.List(ctx, w.l.Settings.QueueName, jobrow.Cancelling) {
			if err != nil {
				if ctx.Err() == nil {
					w.l.log.Warn("cannot read which jobs are to be cancelled; trying again", "err", sdkerr.Short(err))
				}
				break
			}
			w.mu.Lock()
			if j := w.running[r.FullID()]; j != nil {
				j.cancel()
			}
			w.mu.Unlock()
		}
	}
}

// sweep removes expired rows.
func (w *jobWatch) sweep(store *jobrow.Store, now time.Time) {
	ctx, cancel := context.WithTimeout(context.Background(), queues.SettleTimeout)
	defer cancel()
	if _, err := store.Sweep(ctx, w.l.Settings.QueueName, now); err != nil {
		w.l.log.Warn("cannot remove the rows of jobs that have expired; trying again in a minute", "err", sdkerr.Short(err))
	}
}
