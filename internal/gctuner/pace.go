// Package gctuner sets how many bytes of garbage accumulate between two collections, in place of a percentage.
//
// Go's default collects when the heap has doubled. That is too often for a small heap (a server with 5 MiB of live data
// collects after every 5 MiB) and too seldom for a large one (a million queued messages have 300 MiB and would use
// 600). Here the heap grows by [Pace.Least] or by [Pace.Share] of the live data, whichever is more, and free memory is
// returned to the system when the process is idle.
package gctuner

import (
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// Pace is the amount of garbage that accumulates before a collection.
type Pace struct {
	// Least is the amount for a small heap, in bytes.
	Least int64
	// Share is the amount for a large one, as a share of its live data: 1 is Go's default.
	Share float64
}

// Default suits a server whose live data is small and whose requests are many.
var Default = Pace{Least: 40 << 20, Share: 0.3}

// Start applies p until stop is called, which restores the previous setting; stop may be called more than once. A
// process has one pace: a second Start, before the stop of the first, keeps the first pace, until both are stopped. If
// the environment variable GOGC is set, Start does nothing. A limit in GOMEMLIMIT applies besides the pace.
func (p Pace) Start() (stop func()) {
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	process.Lock()
	defer process.Unlock()
	if process.users++; process.users == 1 {
		process.runner = p.run()
	}
	return sync.OnceFunc(func() {
		process.Lock()
		defer process.Unlock()
		if process.users--; process.users == 0 {
			process.runner.stop()
		}
	})
}

// process is the pace of this process.
var process struct {
	sync.Mutex
	users  int
	runner *runner // of the first user
}

func (p Pace) run() *runner {
	r := &runner{pace: p, sample: []metrics.Sample{{Name: "/gc/heap/live:bytes"}}}
	r.former = debug.SetGCPercent(percentMax)
	r.current = percentMax
	r.done = make(chan struct{})
	r.adjust()
	r.watch()
	go watchIdle(r.done)
	return r
}

// Bounds of the percentage, in the unit of GOGC. The upper bound applies with hardly any live data.
const (
	percentMin = 10
	percentMax = 1000
)

// percent returns the GOGC value for a number of live bytes.
func (p Pace) percent(live uint64) int {
	share := max(p.Share, float64(p.Least)/float64(max(live, 1)))
	return int(math.Round(100 * min(max(share, percentMin/100.), percentMax/100.)))
}

// runner adjusts the percentage after each collection.
type runner struct {
	pace   Pace
	sample []metrics.Sample

	mu      sync.Mutex // guards the next fields
	former  int
	current int
	stopped bool
	done    chan struct{} // closed with stopped
}

// sentinel is an object without references: its finalizer runs after each collection.
type sentinel struct{ _ *int }

func (r *runner) watch() {
	runtime.SetFinalizer(&sentinel{}, func(*sentinel) {
		if r.adjust() {
			r.watch()
		}
	})
}

// adjust sets the percentage for the live data of the last collection. It reports whether to continue.
func (r *runner) adjust() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped {
		return false
	}
	metrics.Read(r.sample)
	p := r.pace.percent(r.sample[0].Value.Uint64())
	// Setting it stops the world briefly: skip small changes.
	if d := p - r.current; d*10 > r.current || -d*10 > r.current {
		debug.SetGCPercent(p)
		r.current = p
	}
	return true
}

func (r *runner) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopped = true
	close(r.done)
	debug.SetGCPercent(r.former)
}
