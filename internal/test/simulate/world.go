package simulate

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// World is one run of a simulation. Its methods are for one goroutine, and for the tasks that it runs.
type World struct {
	now      time.Time
	start    time.Time
	random   *rand.PCG
	chance   *rand.Rand
	step     int
	order    uint64
	queue    []*delivery
	tasks    []*task
	current  *task
	failure  string
	sum      uint64
	lines    []string
	recorded bool
}

// delivery is something that happens some time later.
type delivery struct {
	due   time.Time
	order uint64 // the first one that was sent has the lowest
	what  string
	do    func()
}

// task is a coroutine of a process.
type task struct {
	process *Process
	name    string
	resume  func() (struct{}, bool)
	stop    func()
	yield   func(struct{}) bool
	until   time.Time
	ready   func() bool
	ended   bool
}

// New begins a run. With record, it keeps the lines of its trace, and not only their hash.
func New(record bool) *World {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	random := rand.NewPCG(0, 0)
	return &World{now: start, start: start, random: random, chance: rand.New(random), recorded: record}
}

// Begin begins the step of an event: all choices up to the next one come from its number.
func (w *World) Begin(e Event) {
	w.step++
	w.random.Seed(e.Random, uint64(e.Kind))
}

// Now returns the time of the simulation.
func (w *World) Now() time.Time { return w.now }

// Random returns a number.
func (w *World) Random() uint64 { return w.random.Uint64() }

// Choose returns a number below n.
func (w *World) Choose(n int) int { return w.chance.IntN(n) }

// Chance reports true once in n times on average, and never if n is 0.
func (w *World) Chance(n int) bool { return n > 0 && w.chance.IntN(n) == 0 }

// Delay returns a duration up to a limit; short ones are more frequent.
func (w *World) Delay(limit time.Duration) time.Duration {
	f := w.chance.Float64()
	return time.Duration(f * f * float64(limit))
}

// Logf adds a line to the trace.
func (w *World) Logf(format string, args ...any) {
	h := fnv.New64a()
	line := fmt.Sprintf("%5d %9.3fs  ", w.step, w.now.Sub(w.start).Seconds()) + fmt.Sprintf(format, args...)
	// The sum so far goes first, so that the order of the lines counts.
	_, _ = fmt.Fprintf(h, "%x %s", w.sum, line)
	w.sum = h.Sum64()
	if w.recorded {
		w.lines = append(w.lines, line)
	}
}

// Hash identifies the trace so far.
func (w *World) Hash() uint64 { return w.sum }

// Trace returns the lines of the trace.
func (w *World) Trace() string { return strings.Join(w.lines, "\n") }

// Failf notes what the run has shown to be wrong. The first one counts.
func (w *World) Failf(format string, args ...any) {
	if w.failure == "" {
		w.failure = fmt.Sprintf(format, args...)
		w.Logf("WRONG: %s", w.failure)
	}
}

// Failure returns what was passed to Failf first, "" for nothing.
func (w *World) Failure() string { return w.failure }

// After lets do run in a later step, after d at the earliest. Deliveries that are due run in any order.
func (w *World) After(d time.Duration, what string, do func()) {
	w.order++
	w.queue = append(w.queue, &delivery{due: w.now.Add(d), order: w.order, what: what, do: do})
}

// GoOn makes one step: a task that can run, or a delivery that is due. Without any, the clock goes to the time at
// which there is one. It returns false if nothing will ever happen.
func (w *World) GoOn() bool {
	for {
		tasks, due := w.enabled()
		if n := len(tasks) + len(due); n > 0 {
			i := w.Choose(n)
			if i < len(tasks) {
				w.run(tasks[i])
			} else {
				w.deliver(due[i-len(tasks)])
			}
			return true
		}
		if !w.wind() {
			return false
		}
	}
}

// Pass lets time pass although there is something to do.
func (w *World) Pass(d time.Duration) {
	w.now = w.now.Add(d)
	w.Logf("%v pass", d)
}

func (w *World) enabled() (tasks []*task, due []*delivery) {
	for _, t := range w.tasks {
		if !t.until.After(w.now) || t.ready() {
			tasks = append(tasks, t)
		}
	}
	for _, d := range w.queue {
		if !d.due.After(w.now) {
			due = append(due, d)
		}
	}
	return tasks, due
}

// wind sets the clock to the next time at which something can happen.
func (w *World) wind() bool {
	next := w.start.Add(math.MaxInt64)
	for _, t := range w.tasks {
		if t.until.Before(next) {
			next = t.until
		}
	}
	for _, d := range w.queue {
		if d.due.Before(next) {
			next = d.due
		}
	}
	if !next.Before(w.start.Add(math.MaxInt64)) {
		return false
	}
	w.now = next
	return true
}

func (w *World) deliver(d *delivery) {
	i, _ := slices.BinarySearchFunc(w.queue, d, func(a, b *delivery) int { return cmp.Compare(a.order, b.order) })
	w.queue = slices.Delete(w.queue, i, i+1)
	if d.what != "" {
		w.Logf("%s", d.what)
	}
	d.do()
}

// Drop forgets all deliveries.
func (w *World) Drop() { w.queue = nil }

func (w *World) run(t *task) {
	w.current = t
	_, more := t.resume()
	w.current = nil
	if !more {
		w.remove(t)
	}
}

func (w *World) remove(t *task) {
	t.ended = true
	if i := slices.Index(w.tasks, t); i >= 0 {
		w.tasks = slices.Delete(w.tasks, i, i+1)
	}
}

// Close ends all tasks.
func (w *World) Close() {
	for len(w.tasks) > 0 {
		w.kill(w.tasks[0])
	}
}

func (w *World) kill(t *task) {
	w.remove(t)
	w.current = t
	t.stop() // unwinds the task, whose deferred calls run
	w.current = nil
}

// Process is a part of the world that can be killed as a whole: its tasks end where they wait. It has the methods that
// the packages under test want of a schedule.
type Process struct {
	world *World
	name  string
	dead  bool
}

// Process begins a process.
func (w *World) Process(name string) *Process { return &Process{world: w, name: name} }

// Now returns the time.
func (p *Process) Now() time.Time { return p.world.now }

// Random returns a number.
func (p *Process) Random() uint64 { return p.world.Random() }

// Dead reports whether the process was killed.
func (p *Process) Dead() bool { return p.dead }

// Go begins a task.
func (p *Process) Go(f func()) { p.Task("", f) }

// killed unwinds a task.
type killed struct{}

// Task begins a task with a name, which the trace tells when it begins to run.
func (p *Process) Task(name string, f func()) {
	if p.dead {
		return
	}
	t := &task{process: p, name: name, until: p.world.now, ready: func() bool { return true }}
	t.resume, t.stop = iter.Pull(func(yield func(struct{}) bool) {
		defer func() {
			if r := recover(); r != nil {
				if _, ok := r.(killed); !ok {
					p.world.Failf("%s panics: %v", p.name, r)
				}
			}
		}()
		t.yield = yield
		if name != "" {
			p.world.Logf("%s: %s", p.name, name)
		}
		f()
	})
	p.world.tasks = append(p.world.tasks, t)
}

// Park ends the step of the task that calls, until ready returns true or d is over. ready must only look.
func (p *Process) Park(d time.Duration, ready func() bool) {
	t := p.world.current
	if t == nil || t.process != p {
		panic("simulate: Park outside of a task of the process " + p.name)
	}
	t.until, t.ready = p.world.start.Add(math.MaxInt64), ready
	if d < t.until.Sub(p.world.now) {
		t.until = p.world.now.Add(max(d, 0))
	}
	if t.ended || !t.yield(struct{}{}) {
		panic(killed{})
	}
}

// Kill ends the process at once, as a power failure does.
func (p *Process) Kill() {
	p.dead = true
	for _, t := range slices.Clone(p.world.tasks) {
		if t.process == p {
			p.world.kill(t)
		}
	}
}

// Logf adds a line of the process to the trace.
func (p *Process) Logf(format string, args ...any) {
	p.world.Logf("%s: %s", p.name, fmt.Sprintf(format, args...))
}
