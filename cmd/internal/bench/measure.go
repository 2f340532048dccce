package bench

import (
	"context"
	"errors"
	"maps"
	"sync"
	"sync/atomic"
	"time"
)

// errorPause keeps a worker from hammering a server that refuses connections.
const errorPause = 5 * time.Millisecond

// measurement is one workload on one target, over all its slices.
type measurement struct {
	env      *env
	workload *Workload
	workers  []worker
	conns    []*Conn

	tallies   []tally // one per worker
	slices    []sliceResult
	spent     time.Duration // wall time of the counted slices
	cpu       time.Duration // processor time of the server in the counted slices, 0 when unknown
	rss       Memory        // the largest seen after a slice
	failed    error         // why the measurement ended early
	maxErrors int64
	errors    atomic.Int64
}

// tally has the counts of one worker.
type tally struct {
	hist   Histogram
	busy   time.Duration
	errors map[string]uint64
}

// sliceResult is one slice, for judging how steady a result is.
type sliceResult struct {
	Ops  uint64        `json:"ops"`
	Busy time.Duration `json:"-"`
	Rate float64       `json:"ops_per_s"`
}

func newMeasurement(e *env, w *Workload, maxErrors int) *measurement {
	m := &measurement{env: e, workload: w, conns: e.conns, maxErrors: int64(maxErrors)}
	if w.MaxConns > 0 && len(m.conns) > w.MaxConns {
		m.conns = m.conns[:w.MaxConns]
	}
	for i := range m.conns {
		m.workers = append(m.workers, w.worker(e, i))
	}
	m.tallies = make([]tally, len(m.workers))
	return m
}

// slice lets all workers work for d and waits until each has finished its last operation. Unless count is set, what
// happened is forgotten (warm-up), except that errors still count towards the limit.
func (m *measurement) slice(ctx context.Context, d time.Duration, count bool) {
	// Outside the measured time. With samples the target is not a server that keeps anything.
	if m.workload.between != nil && m.env.target.samples == nil {
		if err := m.workload.between(m.env); err != nil {
			m.failed = err
			return
		}
	}
	var wg sync.WaitGroup
	tallies := make([]tally, len(m.workers))
	pid := m.env.target.PID
	cpu := ProcessorTime(pid)
	start := time.Now()
	for i, w := range m.workers {
		wg.Go(func() { m.work(ctx, w, m.conns[i], &tallies[i], start, d) })
	}
	wg.Wait()
	if m.errors.Load() > m.maxErrors {
		m.failed = errTooMany
	}
	// A slice for warming up leaves connections and caches warm, and no numbers.
	if !count {
		return
	}
	m.spent += time.Since(start)
	m.cpu += ProcessorTime(pid) - cpu
	if mem := ReadMemory(pid); mem.RSS > m.rss.RSS {
		m.rss = mem
	}
	var s sliceResult
	for i := range tallies {
		t, total := &tallies[i], &m.tallies[i]
		s.Ops += t.hist.Count()
		// The time that workers were busy, and not the length of the slice: a worker that ends early must not lower the
		// rate.
		s.Busy += t.busy
		total.busy += t.busy
		total.hist.Merge(&t.hist)
		if total.errors == nil {
			total.errors = t.errors
			continue
		}
		for k, n := range t.errors {
			total.errors[k] += n
		}
	}
	s.Rate = rate(s.Ops, s.Busy, len(m.workers))
	m.slices = append(m.slices, s)
}

// work repeats one worker's operation until the slice ends.
func (m *measurement) work(ctx context.Context, w worker, c *Conn, t *tally, start time.Time, d time.Duration) {
	last := start
	for last.Sub(start) < d && m.errors.Load() <= m.maxErrors && ctx.Err() == nil {
		err := w.do(c)
		now := time.Now()
		if err == nil {
			t.hist.Record(now.Sub(last))
			last = now
			continue
		}
		last = now
		if err == errDone {
			break
		}
		m.errors.Add(1)
		if t.errors == nil {
			t.errors = map[string]uint64{}
		}
		t.errors[errorLabel(err)]++
		select {
		case <-time.After(errorPause):
		case <-ctx.Done():
		}
		last = time.Now()
	}
	t.busy = last.Sub(start)
}

// rate is the throughput of workers that together completed ops in a summed time of busy: with operations that take
// longer than a slice, it does not count the time in which some workers had already finished.
func rate(ops uint64, busy time.Duration, workers int) float64 {
	if busy <= 0 {
		return 0
	}
	return float64(ops) * float64(workers) / busy.Seconds()
}

// totals sums over workers.
func (m *measurement) totals() (h *Histogram, opsPerSecond float64, errs map[string]uint64) {
	h, errs = new(Histogram), map[string]uint64{}
	var busy time.Duration
	for i := range m.tallies {
		t := &m.tallies[i]
		h.Merge(&t.hist)
		busy += t.busy
		for k, n := range t.errors {
			errs[k] += n
		}
	}
	return h, rate(h.Count(), busy, len(m.tallies)), maps.Clone(errs)
}

var errTooMany = errors.New("more errors than allowed")
