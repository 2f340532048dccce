package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/lazuli-storage/lazuli/workers/roles/archive"
)

// WorkerSettings are what the archive worker's process is started with.
type WorkerSettings struct {
	ConnectionString        string
	Queue, Current, Archive string
	// Lease is the worker's lease on a message, Concurrency how many messages it works on at most.
	Lease       time.Duration
	Concurrency int
	// MaxDequeueCount is how often a message may be received before it counts as poison.
	MaxDequeueCount int
	// Fault is a fault plan in the form that package fault parses; empty means none.
	Fault string
}

// ArchiveConfig describes a run of the archive demonstration.
type ArchiveConfig struct {
	ConnectionString string
	// Worker returns the command of a worker process. It must stop in good order at SIGTERM.
	Worker func(WorkerSettings) *exec.Cmd
	// Points are the fault points to visit, and Frozen; nil means all.
	Points []string
	// Pairs visits every pair of fault points too: killed at the first, and the restarted process at the second.
	Pairs bool
	// Records limits how many records are loaded; 0 means all.
	Records int
	// Seed makes the choices of a run: which records in which round, and at which hit of its point a process dies.
	Seed uint64
	// Lease is the worker's lease in whole seconds, and so how long a killed process's messages stay hidden. 0 means 1 s.
	Lease time.Duration
	// Patience is how long a round may take from a restart to an empty queue before its messages count as stuck. 0 means 60 s.
	Patience time.Duration
	// Keep leaves tables and queue in place at the end.
	Keep bool
	// Progress receives what happens while it happens. If Live, lines are rewritten in place as on a terminal.
	Progress io.Writer
	Live     bool
}

// concurrency is how many messages the worker has in work: enough to be caught in the middle of several.
const concurrency = 16

// maxDequeueCount leaves room for a machine so busy that leases of a second lapse: on such a one the default of 5 would poison
// messages that nothing is wrong with.
const maxDequeueCount = 25

// duplicateEvery is the distance of messages that are put twice, since a queue may deliver twice.
const duplicateEvery = 10

// Frozen stands among the points for a worker that is not killed but stopped in the middle of its work (SIGSTOP), for longer than its
// leases last, and goes on when another worker has finished everything: whatever it does then, it does with stale leases.
const Frozen = "frozen"

// Points returns what a run visits by default.
func Points() []string {
	if !canFreeze {
		return archive.Points()
	}
	return append(archive.Points(), Frozen)
}

// ErrInvariant is in the chain of the error of a run whose records were not all where they belong.
var ErrInvariant = errors.New("an invariant does not hold")

// Archive runs the demonstration. The report is complete as far as the run came, also when an error is returned.
func Archive(ctx context.Context, c ArchiveConfig) (_ *Report, err error) {
	if c.Points == nil {
		c.Points = Points()
	}
	for _, p := range c.Points {
		if !slices.Contains(Points(), p) {
			return nil, fmt.Errorf("the archive role has no fault point %q; there are %s", p, strings.Join(Points(), ", "))
		}
	}
	if c.Lease == 0 {
		c.Lease = time.Second
	}
	if c.Patience == 0 {
		c.Patience = time.Minute
	}
	account, err := openAccount(c.ConnectionString, freshNames(time.Now()))
	if err != nil {
		return nil, err
	}
	r := &archiveRun{ArchiveConfig: c, account: account, say: newProgress(c.Progress, c.Live)}
	defer func() {
		r.say.clear()
		if c.Keep {
			return
		}
		// Also after an interrupt: what was created is removed.
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
		defer cancel()
		err = errors.Join(err, account.remove(clean))
	}()
	return r.run(ctx)
}

type archiveRun struct {
	ArchiveConfig
	account *account
	say     *progress
	random  *rand.Rand
	loaded  contents
	old     []entityKey
	report  Report
}

func (r *archiveRun) run(ctx context.Context) (*Report, error) {
	begun := time.Now()
	r.random = newRandom(r.Seed)
	r.report = Report{Seed: r.Seed, Names: r.account.names}
	if err := r.prepare(ctx); err != nil {
		return &r.report, err
	}
	rounds := r.plan()
	for i, round := range rounds {
		row, err := r.round(ctx, fmt.Sprintf("%d/%d", i+1, len(rounds)), round)
		r.report.Rows = append(r.report.Rows, row)
		if err != nil {
			return &r.report, fmt.Errorf("round %d, %s: %w", i+1, round, err)
		}
	}
	if err := r.conclude(ctx); err != nil {
		return &r.report, err
	}
	r.report.Took = time.Since(begun)
	return &r.report, r.report.Err()
}

// prepare creates tables and queue and loads the records.
func (r *archiveRun) prepare(ctx context.Context) error {
	entities, err := loadRecords(r.Records)
	if err != nil {
		return err
	}
	if err := r.account.create(ctx); err != nil {
		return err
	}
	var n atomic.Int64
	if err := r.account.load(ctx, entities, func(more int) {
		r.say.update("loading records into %s: %d of %d", r.account.names.current, n.Add(int64(more)), len(entities))
	}); err != nil {
		return err
	}
	if r.loaded, err = r.account.read(ctx, r.account.names.current); err != nil {
		return err
	}
	if len(r.loaded) != len(entities) {
		return fmt.Errorf("%w: %d records were loaded, %d are in the table", ErrInvariant, len(entities), len(r.loaded))
	}
	for _, e := range entities {
		if e.old {
			r.old = append(r.old, e.key)
		}
	}
	r.shuffle()
	r.report.Records, r.report.Old = len(entities), len(r.old)
	r.say.line("loaded %d records; %d are of terms that ended by %s and go to the archive", len(entities), len(r.old), cutoff.Format(time.DateOnly))
	return nil
}

func newRandom(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

func (r *archiveRun) shuffle() {
	r.random.Shuffle(len(r.old), func(i, j int) { r.old[i], r.old[j] = r.old[j], r.old[i] })
}

// kill is one death of a worker: at the nth hit of a point.
type kill struct {
	point string
	hit   int
}

// roundPlan is a share of the old records and the deaths that come over the worker that archives them.
type roundPlan struct {
	keys  []entityKey
	kills []kill
}

// frozen reports whether the plan is to freeze a worker.
func (p roundPlan) frozen() bool { return p.kills[0].point == Frozen }

func (p roundPlan) String() string {
	if p.frozen() {
		return fmt.Sprintf("frozen after %d messages", p.kills[0].hit)
	}
	var texts []string
	for _, k := range p.kills {
		texts = append(texts, fmt.Sprintf("%s, hit %d", k.point, k.hit))
	}
	return "killed at " + strings.Join(texts, "; then at ")
}

// plan deals the old records to the rounds.
func (r *archiveRun) plan() []roundPlan {
	var sequences [][]string
	for _, p := range r.Points {
		sequences = append(sequences, []string{p})
	}
	if r.Pairs {
		steps := slices.DeleteFunc(slices.Clone(r.Points), func(p string) bool { return p == Frozen })
		for _, p := range steps {
			for _, q := range steps {
				sequences = append(sequences, []string{p, q})
			}
		}
	}
	rounds := make([]roundPlan, len(sequences))
	for i, k := range r.old {
		round := &rounds[i%len(rounds)]
		round.keys = append(round.keys, k)
	}
	for i, points := range sequences {
		// A process may have finished up to concurrency messages more than the hit that kills it: enough must be left
		// for the deaths after it.
		most := max(1, (len(rounds[i].keys)-concurrency*len(points))/(len(points)+1))
		for _, p := range points {
			if p == Frozen {
				rounds[i].kills = []kill{{Frozen, max(0, len(rounds[i].keys)-lastInWork)}}
				continue
			}
			rounds[i].kills = append(rounds[i].kills, kill{p, 1 + r.random.IntN(most)})
		}
	}
	return rounds
}

// round archives one share of the records through its deaths.
func (r *archiveRun) round(ctx context.Context, number string, plan roundPlan) (Row, error) {
	begun := time.Now()
	row := Row{Point: plan.String(), Records: len(plan.keys), kills: plan.kills}
	share := contents{}
	var ask []entityKey
	for i, k := range plan.keys {
		share[k] = r.loaded[k]
		ask = append(ask, k)
		// Not for a worker that is to be frozen, which counts its messages by the copies it makes.
		if i%duplicateEvery == 0 && !plan.frozen() {
			ask = append(ask, k)
		}
	}
	row.Messages = len(ask)
	r.say.update("round %s: putting %d messages", number, len(ask))
	if err := r.account.ask(ctx, ask); err != nil {
		return row, err
	}
	var frozen *child
	if plan.frozen() {
		r.say.update("round %s: the worker runs, to be frozen", number)
		var err error
		if frozen, err = r.runUntilFrozen(ctx, len(ask)); err != nil {
			return row, err
		}
		defer frozen.kill()
		if err := r.inspect(ctx, &row, share, number, plan.String()); err != nil {
			return row, err
		}
	} else {
		for _, k := range plan.kills {
			r.say.update("round %s: the worker runs, to be killed at %s, hit %d", number, k.point, k.hit)
			if err := r.runUntilKilled(ctx, k); err != nil {
				return row, err
			}
			if err := r.inspect(ctx, &row, share, number, fmt.Sprintf("killed at %s, hit %d", k.point, k.hit)); err != nil {
				return row, err
			}
		}
	}
	restarted := time.Now()
	if err := r.runUntilEmpty(ctx, number); err != nil {
		return row, err
	}
	row.Recovered = time.Since(restarted)
	if frozen != nil {
		r.say.update("round %s: the frozen worker goes on with its stale leases", number)
		if err := r.letGoOn(ctx, frozen); err != nil {
			return row, err
		}
	}
	end, err := r.look(ctx, share)
	if err != nil {
		return row, err
	}
	row.settle(end)
	row.Took = time.Since(begun)
	r.say.line("round %s: restarted, finished after %.1fs: %s", number, row.Recovered.Seconds(), row.verdict())
	return row, nil
}

// inspect records where a share's records are right after a worker stopped.
func (r *archiveRun) inspect(ctx context.Context, row *Row, share contents, number, what string) error {
	at, err := r.look(ctx, share)
	if err != nil {
		return err
	}
	left, err := r.account.waiting(ctx, r.account.names.queue)
	if err != nil {
		return err
	}
	row.Crashes = append(row.Crashes, Crash{Moved: len(at.Moved), Kept: len(at.Kept), Both: len(at.Both), Lost: len(at.Lost), Messages: left})
	r.say.line("round %s: %s: %d archived, %d not yet, %d in both tables, %d messages left", number, what, len(at.Moved), len(at.Kept), len(at.Both), left)
	return nil
}

func (r *archiveRun) look(ctx context.Context, share contents) (census, error) {
	current, err := r.account.read(ctx, r.account.names.current)
	if err != nil {
		return census{}, err
	}
	archived, err := r.account.read(ctx, r.account.names.archive)
	if err != nil {
		return census{}, err
	}
	return take(share, current, archived), nil
}

func (r *archiveRun) start(fault string) (*child, error) {
	n := r.account.names
	return startChild(r.Worker(WorkerSettings{
		ConnectionString: r.ConnectionString, Queue: n.queue, Current: n.current, Archive: n.archive,
		Lease: r.Lease, Concurrency: concurrency, MaxDequeueCount: maxDequeueCount, Fault: fault,
	}))
}

func (r *archiveRun) runUntilKilled(ctx context.Context, k kill) error {
	ctx, cancel := context.WithTimeoutCause(ctx, r.Patience, fmt.Errorf("nothing happened for %v", r.Patience))
	defer cancel()
	worker, err := r.start(fmt.Sprintf("%s=kill@%d", k.point, k.hit))
	if err != nil {
		return err
	}
	return worker.waitForKill(ctx)
}

// lastInWork is how many messages are in work when a worker is frozen: the last ones, so that it can be seen from outside that it has
// them all.
const lastInWork = 10

// runUntilFrozen runs a worker until the last of n messages are in work, between being read and being copied, and freezes it.
func (r *archiveRun) runUntilFrozen(ctx context.Context, n int) (_ *child, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, r.Patience, fmt.Errorf("nothing happened for %v", r.Patience))
	defer cancel()
	var holdUp []string
	for hit := max(1, n-lastInWork+1); hit <= n; hit++ {
		holdUp = append(holdUp, fmt.Sprintf("archive/before-copy=delay:3s@%d", hit))
	}
	worker, err := r.start(strings.Join(holdUp, ","))
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			worker.kill()
		}
	}()
	if err := every(ctx, 10*time.Millisecond, func() (bool, error) {
		left, err := r.account.waiting(ctx, r.account.names.queue)
		if err != nil || left > lastInWork {
			return false, err
		}
		visible, err := r.account.visible(ctx, r.account.names.queue)
		return !visible, err
	}); err != nil {
		return nil, err
	}
	// All are received; within the delay's three seconds, give the handlers time to have read their entities.
	select {
	case <-time.After(500 * time.Millisecond):
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	return worker, worker.freeze()
}

// letGoOn thaws a worker and asks it to stop, which lets the handlers finish that it was frozen in.
func (r *archiveRun) letGoOn(ctx context.Context, worker *child) error {
	ctx, cancel := context.WithTimeoutCause(ctx, r.Patience, fmt.Errorf("nothing happened for %v", r.Patience))
	defer cancel()
	if err := worker.thaw(); err != nil {
		return err
	}
	return worker.stop(ctx)
}

// runUntilEmpty runs a worker without faults until no message is left, visible or not.
func (r *archiveRun) runUntilEmpty(ctx context.Context, number string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, r.Patience, fmt.Errorf("messages are stuck: the queue was not empty after %v", r.Patience))
	defer cancel()
	worker, err := r.start("")
	if err != nil {
		return err
	}
	err = every(ctx, 25*time.Millisecond, func() (bool, error) {
		if worker.gone() {
			return false, fmt.Errorf("the worker ended: %v\n%s", worker.err, worker.output)
		}
		left, err := r.account.waiting(ctx, r.account.names.queue)
		r.say.update("round %s: restarted, %d messages left", number, left)
		return left == 0, err
	})
	if err != nil {
		worker.kill()
		return err
	}
	return worker.stop(ctx)
}

// conclude counts everything once more, also what no round asked to be moved.
func (r *archiveRun) conclude(ctx context.Context) error {
	current, err := r.account.read(ctx, r.account.names.current)
	if err != nil {
		return err
	}
	archived, err := r.account.read(ctx, r.account.names.archive)
	if err != nil {
		return err
	}
	all := take(r.loaded, current, archived)
	old := map[entityKey]bool{}
	for _, k := range r.old {
		old[k] = true
	}
	problems := slices.Concat(
		complain("records are lost", all.Lost),
		complain("records are in both tables", all.Both),
		complain("records changed", all.Changed),
		complain("old records are still in Current", slices.DeleteFunc(slices.Clone(all.Kept), func(k entityKey) bool { return !old[k] })),
		complain("records in the archive are not old", slices.DeleteFunc(slices.Clone(all.Moved), func(k entityKey) bool { return old[k] })),
		complain("entities nobody loaded are in Current", strangers(r.loaded, current)),
		complain("entities nobody loaded are in the archive", strangers(r.loaded, archived)),
	)
	left, err := r.account.waiting(ctx, r.account.names.queue)
	if err != nil {
		return err
	}
	more, err := r.account.visible(ctx, r.account.names.queue)
	if err != nil {
		return err
	}
	if left > 0 || more {
		problems = append(problems, fmt.Sprintf("the queue is not empty: %d messages", max(left, 1)))
	}
	poisoned, err := r.account.waiting(ctx, r.account.names.poison)
	if err != nil {
		return err
	}
	if poisoned > 0 {
		problems = append(problems, fmt.Sprintf("%d messages are in the poison queue", poisoned))
	}
	r.report.Current, r.report.Archived, r.report.Problems = len(current), len(archived), problems
	return nil
}
