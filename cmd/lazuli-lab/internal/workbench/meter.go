package workbench

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	// Parallel is the number of jobs that clients and workers have in work at once.
	Parallel = 32
	// WorkflowsAtOnce is the number of workflows that run at once.
	WorkflowsAtOnce = 16
	// Chain is the workflow that calls three activities one after the other, FanOut that which calls ten at once.
	Chain, FanOut = "chain", "fan-out"
)

// Body is the content of a job.
var Body = make([]byte, 256)

// wakeTime limits the measurement of wakes, for systems that poll.
const wakeTime = 10 * time.Second

// Numbers are how much a Meter measures.
type Numbers struct {
	// Jobs is the number of jobs that are put, and then handled.
	Jobs int
	// Delayed is the number of jobs that are due at once.
	Delayed int
	// Wakes is the maximum number of jobs that are put, one at a time, for an idle worker.
	Wakes int
	// Workflows is the number of workflows of each kind.
	Workflows int
}

// Meter measures a system of jobs or of workflows.
type Meter struct {
	N Numbers
	// Processor returns the processor time of servers and clients so far.
	Processor func() time.Duration
	// Requests, if not nil, returns the number of requests to the server so far.
	Requests func() int64
	// Rows are the measurements so far.
	Rows []Row
}

// Jobs is a system of jobs.
type Jobs interface {
	// Put puts a job with Body into a queue, that is due at a time, or at once if due is zero.
	Put(ctx context.Context, queue string, due time.Time) error
	// Work calls handle for each job of a queue, Parallel at a time.
	Work(ctx context.Context, queue string, handle func()) (*Worker, error)
}

// Worker handles jobs.
type Worker struct {
	// Stop returns when what was handled is acknowledged.
	Stop func(context.Context) error
	// Idle returns when the worker waits for jobs.
	Idle func(context.Context) error
}

// measured adds a row for n things that do does.
func (m *Meter) measured(name string, n int, do func() error) error {
	return m.timed(name, n, func() (time.Duration, error) {
		began := time.Now()
		err := do()
		return time.Since(began), err
	})
}

// timed is measured for a function that returns the time that it took without what ends it.
func (m *Meter) timed(name string, n int, do func() (time.Duration, error)) error {
	requests := func() int64 { return 0 }
	if m.Requests != nil {
		requests = m.Requests
	}
	used, asked := m.Processor(), requests()
	took, err := do()
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	m.Rows = append(m.Rows, Row{Name: name, N: n, Rate: float64(n) / took.Seconds(),
		Processor: (m.Processor() - used) / time.Duration(n), Requests: float64(requests()-asked) / float64(n), Took: took})
	return nil
}

// SetLatencies sets the latencies of a row, which it sorts.
func (r *Row) SetLatencies(all []time.Duration) {
	slices.Sort(all)
	r.Latencies, r.P50, r.P99 = all, all[len(all)/2], all[len(all)*99/100]
}

// Jobs measures a system of jobs.
func (m *Meter) Jobs(ctx context.Context, j Jobs) error {
	if err := j.Put(ctx, "work", time.Time{}); err != nil { // the queue exists
		return err
	}
	if _, err := handled(ctx, j, "work", 1, func() {}); err != nil {
		return err
	}
	err := m.measured(fmt.Sprintf("put, %d at a time", Parallel), m.N.Jobs, func() error {
		return put(ctx, j, "work", m.N.Jobs, time.Time{})
	})
	if err != nil {
		return err
	}
	err = m.timed(fmt.Sprintf("handle %d waiting, %d at a time", m.N.Jobs, Parallel), m.N.Jobs,
		func() (time.Duration, error) { return handled(ctx, j, "work", m.N.Jobs, func() {}) })
	if err != nil {
		return err
	}
	if err := m.wakes(ctx, j); err != nil {
		return err
	}
	return m.delayed(ctx, j)
}

// put puts n jobs, Parallel at a time.
func put(ctx context.Context, j Jobs, queue string, n int, due time.Time) error {
	return each(ctx, n, Parallel, func(ctx context.Context, _ int) error { return j.Put(ctx, queue, due) })
}

// handled runs a worker until it has handled n jobs of a queue, and returns the time that this took.
func handled(ctx context.Context, j Jobs, queue string, n int, one func()) (took time.Duration, err error) {
	count, done, began := atomic.Int64{}, make(chan struct{}), time.Now()
	w, err := j.Work(ctx, queue, func() {
		one()
		if count.Add(1) == int64(n) {
			took = time.Since(began)
			close(done)
		}
	})
	if err != nil {
		return 0, err
	}
	select {
	case <-done:
	case <-ctx.Done():
	}
	if err := w.Stop(context.WithoutCancel(ctx)); err != nil { // the last deletions
		return 0, err
	}
	return took, ctx.Err()
}

// wakes measures the time from before a put to the start of the handler of an idle worker.
func (m *Meter) wakes(ctx context.Context, j Jobs) error {
	begun := make(chan time.Time, 1)
	w, err := j.Work(ctx, "idle", func() { begun <- time.Now() })
	if err != nil {
		return err
	}
	defer func() { _ = w.Stop(context.WithoutCancel(ctx)) }()
	var all []time.Duration
	for began := time.Now(); len(all) < m.N.Wakes && (len(all) == 0 || time.Since(began) < wakeTime); {
		if err := w.Idle(ctx); err != nil {
			return err
		}
		at := time.Now()
		if err := j.Put(ctx, "idle", time.Time{}); err != nil {
			return err
		}
		select {
		case t := <-begun:
			all = append(all, t.Sub(at))
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	row := Row{Name: "put to start of the handler, idle", N: len(all)}
	row.SetLatencies(all)
	m.Rows = append(m.Rows, row)
	return nil
}

// delayed measures when the last of many jobs begins that are due at once.
func (m *Meter) delayed(ctx context.Context, j Jobs) error {
	// A whole second: some systems know no other times.
	due := time.Now().Add(time.Duration(5+m.N.Delayed/2000) * time.Second).Truncate(time.Second)
	if err := put(ctx, j, "delayed", m.N.Delayed, due); err != nil {
		return err
	}
	last := atomic.Int64{}
	_, err := handled(ctx, j, "delayed", m.N.Delayed, func() { last.Store(time.Now().UnixNano()) })
	m.Rows = append(m.Rows, Row{Name: fmt.Sprintf("%d delayed jobs due at once, the last start", m.N.Delayed),
		N: 1, Took: time.Unix(0, last.Load()).Sub(due)})
	return err
}

// Workflows measures chains and fan-outs. run runs a workflow, Chain or FanOut, to its end.
func (m *Meter) Workflows(ctx context.Context, run func(ctx context.Context, name string) error) error {
	for _, kind := range []struct{ name, title string }{{Chain, "chain of 3 activities"},
		{FanOut, "fan-out of 10 activities"}} {
		var mu sync.Mutex
		var all []time.Duration
		err := m.measured(fmt.Sprintf("%s, %d at a time", kind.title, WorkflowsAtOnce), m.N.Workflows, func() error {
			return each(ctx, m.N.Workflows, WorkflowsAtOnce, func(ctx context.Context, _ int) error {
				at := time.Now()
				err := run(ctx, kind.name)
				mu.Lock()
				defer mu.Unlock()
				all = append(all, time.Since(at))
				return err
			})
		})
		if err != nil {
			return err
		}
		m.Rows[len(m.Rows)-1].SetLatencies(all)
	}
	return nil
}

// each calls do with 0 to n-1, several at once.
func each(ctx context.Context, n, atOnce int, do func(ctx context.Context, i int) error) error {
	g, ctx := errgroup.WithContext(ctx)
	next := atomic.Int64{}
	for range atOnce {
		g.Go(func() error {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				if err := do(ctx, int(i)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return g.Wait()
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
