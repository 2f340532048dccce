package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"github.com/lazuli-storage/lazuli/workers"
)

// WorkerSettings are the settings of a worker process.
type WorkerSettings struct {
	ConnectionString string
	// Queue has the messages. Current is the table in daily use, Archive the archive role's target, Container the
	// container of the other roles' blobs. Names that a role does not need are empty.
	Queue, Current, Archive, Container string
	// Kind is the kind of index that the table-index role maintains, or what feeds the index of the search-index role.
	Kind string
	// Folder is the place where the search-index role has its index.
	Folder string
	// Lease is the worker's lease on a message, Concurrency its maximum number of in-flight messages.
	Lease       time.Duration
	Concurrency int
	// MaxDequeueCount is the number of times that a message may be received before it counts as poison.
	MaxDequeueCount int
	// Fault is a fault plan in the form that package fault parses; empty means none.
	Fault string
	// Mistake is the ID of the mistake that the worker makes, and RunNaiveWorker runs; empty means none.
	Mistake string
	// Story means that a worker that sweeps does so once no message is left, which keeps what it does apart.
	Story bool
}

// Options are the settings as a queue trigger takes them.
func (s WorkerSettings) Options() []workers.QueueOption {
	return []workers.QueueOption{workers.WithQueueName(s.Queue), workers.WithLease(s.Lease),
		workers.WithConcurrency(s.Concurrency), workers.WithMaxDequeueCount(s.MaxDequeueCount)}
}

// Config describes a run of a demonstration.
type Config struct {
	ConnectionString string
	// Worker returns the command of a worker process, which must stop gracefully on SIGTERM.
	Worker func(WorkerSettings) *exec.Cmd
	// Points are the fault points to visit, and Frozen; nil means all.
	Points []string
	// Pairs visits every pair of fault points too: killed at the first, and the restarted process at the second.
	Pairs bool
	// SamplePairs, if not 0, visits only so many of the pairs, which the seed chooses.
	SamplePairs int
	// Records limits how many records are loaded; 0 means all.
	Records int
	// Seed makes the choices of a run: which records in which round, and at which hit of its point a process dies.
	Seed uint64
	// Lease is the worker's lease in whole seconds, and so how long a killed process's messages stay hidden. 0 means 1 s.
	Lease time.Duration
	// Patience is the maximum time from a restart to an empty queue; messages that are left after it count as stuck. 0
	// means 60 s.
	Patience time.Duration
	// Disturb, if set, kills nodes of the cluster that serves the account, while rounds run: from a round's begin until
	// ctx ends. It returns when all nodes are ready again. Requests of the run are sent again for longer then.
	Disturb func(ctx context.Context, say func(format string, args ...any)) (kills int, err error)
	// Keep leaves tables and queue in place at the end; Kept, if set, receives their names.
	Keep bool
	Kept func(names []string)
	// Step, if set, is called before each step of a run, with what comes next. An error ends the run.
	Step func(ctx context.Context, next string) error
	// plain removes chance, for tests of workers with a fault that chance could hide: no message is put twice, and a
	// worker dies when it first reaches its point.
	plain bool
	// mistake, if set, is made by the workers: damage is counted, and is not an error.
	mistake *Mistake
	// Story, if not 0, follows one item alone, counted from 1, and reports what happens to it. Points has one step at
	// most; nil chooses it.
	Story int
	// stuckAfter is the part of Patience that begins with the last restart. 0 means the same.
	stuckAfter time.Duration
	// Progress receives lines; nil discards them. Show, if set, shows a text in place of the one before, as a terminal
	// can; a line removes it.
	Progress io.Writer
	Show     func(text string)
}

// maxDequeueCount allows for a machine so busy that leases of one second expire: with the default of 5, messages
// without an error would move to the poison queue.
const maxDequeueCount = 100

// duplicateEvery is the distance of messages that are put twice, since a queue may deliver twice.
const duplicateEvery = 10

// Frozen is the point of a round in which the worker is not killed but stopped (SIGSTOP) during its work, for longer
// than its leases, and continues after another worker has finished everything, with expired leases.
const Frozen = "frozen"

// ErrInvariant is wrapped by the error of a run that ended with lost, duplicated or wrong records.
var ErrInvariant = errors.New("an invariant does not hold")

// pattern is a role with its data, as the harness sees it. Items are known by keys.
type pattern interface {
	// points are the moments at which a worker is killed; holdUp is the one, in the middle of its work, at which it is
	// frozen.
	points() []string
	holdUp() string
	// concurrency is the number of messages that a worker has in work: enough to be caught in the middle of several.
	concurrency() int
	create(ctx context.Context) error
	remove(ctx context.Context) error
	// load stores the records, as many as records says (0: all), and returns the items to be worked on.
	load(ctx context.Context, r *run) ([]entityKey, error)
	// kind sorts items by what is done to them: every round, and every death, gets some of each kind.
	kind(k entityKey) string
	// message is the body of the message that asks for an item.
	message(k entityKey) ([]byte, error)
	// passes is the number of times that a worker surely comes to a point on n items, at least 1.
	passes(point string, n int) int
	// plan is the fault plan that kills a worker.
	plan(k kill) string
	// reset makes items on which all work is done as they were when loaded.
	reset(ctx context.Context, keys []entityKey) error
	// census returns where the items are. atEnd means that all work is done, so that items that were not processed are
	// lost.
	census(ctx context.Context, keys []entityKey, atEnd bool) (census, error)
	// converged reports whether all work is done, except that of messages.
	converged(ctx context.Context) (bool, error)
	// conclude counts everything once more, and returns what is wrong; summary is one sentence for the report.
	conclude(ctx context.Context, r *run) (problems []string, summary string, err error)
	// words are those of the report.
	words() words
	// names are those of what create makes.
	settings() WorkerSettings
}

// pointsOf returns what a run visits by default.
func pointsOf(p pattern) []string {
	if _, one := p.(interface{ oneProcess() }); one || !canFreeze {
		return p.points()
	}
	return append(p.points(), Frozen)
}

// demonstrate runs a demonstration. The report is complete as far as the run came, also when an error is returned.
func demonstrate(ctx context.Context, c Config, open func(*workers.Storage, string) (pattern, error)) (_ *Report,
	err error) {
	var options []workers.StorageOption
	if c.Disturb != nil { // a leader may be missing for some fifteen seconds
		options = append(options, workers.WithClientRetry(
			policy.RetryOptions{MaxRetries: 20, RetryDelay: 200 * time.Millisecond, MaxRetryDelay: 3 * time.Second,
				StatusCodes: []int{http.StatusRequestTimeout, http.StatusInternalServerError, http.StatusBadGateway,
					http.StatusServiceUnavailable, http.StatusGatewayTimeout}}))
	}
	storage, err := workers.OpenStorage(c.ConnectionString, options...)
	if err != nil {
		return nil, err
	}
	// names differ from run to run, and meet nothing of another's
	id := fmt.Sprintf("%x", time.Now().UnixNano())
	p, err := open(storage, id)
	if err != nil {
		return nil, err
	}
	all := pointsOf(p)
	if c.Points == nil {
		c.Points = all
	}
	for _, name := range c.Points {
		if !slices.Contains(all, name) && c.mistake == nil { // a mistake may have a step of its own
			return nil, fmt.Errorf("the role has no fault point %q; there are %s", name, strings.Join(all, ", "))
		}
	}
	if c.Lease == 0 {
		c.Lease = time.Second
	}
	if c.Patience == 0 {
		c.Patience = time.Minute
	}
	if c.stuckAfter == 0 {
		c.stuckAfter = c.Patience
	}
	var teller *storyteller
	if c.Story > 0 {
		if teller, err = c.beginStory(p, id, all); err != nil {
			return nil, err
		}
		defer teller.close()
	}
	r := &run{Config: c, teller: teller, pattern: p, queue: queues{storage.Queues, p.settings().Queue},
		say: newProgress(c.Progress, c.Show)}
	defer func() {
		if c.Keep {
			err = errors.Join(err, c.reportKept(ctx, storage, id))
			return
		}
		// Also after an interrupt: what was created is removed.
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
		defer cancel()
		err = errors.Join(err, p.remove(clean), r.queue.remove(clean))
	}()
	return r.run(ctx)
}

// beginStory begins the story of a run, and chooses the step of its kill.
func (c *Config) beginStory(p pattern, id string, points []string) (*storyteller, error) {
	title := "with the pattern"
	if c.mistake != nil {
		title = "without the pattern, " + c.mistake.Name
	}
	switch {
	case c.Points == nil || len(c.Points) > 1 && slices.Equal(c.Points, points):
		c.Points = []string{storyPoint(points)}
	case len(c.Points) > 1 || slices.Contains(c.Points, Frozen):
		return nil, errors.New("a story has one kill, at one step")
	}
	return newStoryteller(c.ConnectionString, id, title)
}

// reportKept passes on the names of what a run with an ID has made.
func (c *Config) reportKept(ctx context.Context, storage *workers.Storage, id string) error {
	if c.Kept == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	names, err := namesWith(ctx, storage, id)
	if err == nil {
		c.Kept(names)
	}
	return err
}

// next waits until the run is to go on with a step.
func (r *run) next(ctx context.Context, format string, args ...any) error {
	if r.Step == nil {
		return nil
	}
	return r.Step(ctx, fmt.Sprintf(format, args...))
}

// run is a demonstration at work.
type run struct {
	Config
	teller  *storyteller // nil without a story
	pattern pattern
	queue   queues
	say     *progress
	random  *rand.Rand
	work    []entityKey
	report  Report
}

func (r *run) run(ctx context.Context) (*Report, error) {
	begun := time.Now()
	r.random = newRandom(r.Seed)
	r.report = Report{Seed: r.Seed, words: r.pattern.words()}
	// Queue and tables exist before any worker: a worker that waits for a missing queue would look idle.
	if err := errors.Join(r.pattern.create(ctx), r.queue.create(ctx)); err != nil {
		return &r.report, err
	}
	var err error
	if r.work, err = r.pattern.load(ctx, r); err != nil {
		return &r.report, err
	}
	// A story follows one item once. Its report has no rounds, and the deaths that it does not reach are not failures.
	if r.teller != nil {
		err := r.tell(ctx)
		r.report.Took = time.Since(begun)
		if err != nil || r.mistake != nil {
			return &r.report, err
		}
		return &r.report, r.report.Err()
	}
	// Each round gets a random share, so that partitions are split among rounds; the seed makes the order repeatable.
	r.shuffle()
	rounds := r.plan()
	started := time.Now()
	for i, round := range rounds {
		r.say.rounds(i, len(rounds), time.Since(started))
		if err := r.next(ctx, "round %d/%d: a worker begins, to be %s", i+1, len(rounds), round); err != nil {
			return &r.report, err
		}
		row, err := r.disturbed(ctx, fmt.Sprintf("%d/%d", i+1, len(rounds)), round)
		// The row is kept before the error is looked at: a failed round is the one that the reader wants to see.
		r.report.Rows = append(r.report.Rows, row)
		if err != nil {
			return &r.report, fmt.Errorf("round %d, %s: %w", i+1, round, err)
		}
	}
	// What a mistake damaged never becomes whole; conclude would report as a failure what the run is to show.
	if r.mistake == nil {
		if err := r.conclude(ctx); err != nil {
			return &r.report, err
		}
	}
	r.report.Took = time.Since(begun)
	if r.mistake != nil {
		return &r.report, nil
	}
	return &r.report, r.report.Err()
}

// disturbed runs a round while Disturb kills nodes.
func (r *run) disturbed(ctx context.Context, number string, plan roundPlan) (Row, error) {
	if r.Disturb == nil {
		return r.round(ctx, number, plan)
	}
	disturb, end := context.WithCancel(ctx)
	defer end()
	var failed error
	var ended sync.WaitGroup
	ended.Go(func() {
		kills, err := r.Disturb(disturb,
			func(format string, args ...any) { r.say.line("round %s: "+format, append([]any{number}, args...)...) })
		r.report.NodesKilled += kills
		failed = err
	})
	row, err := r.round(ctx, number, plan)
	end()
	ended.Wait()
	return row, errors.Join(err, failed)
}

func newRandom(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

func (r *run) shuffle() {
	r.random.Shuffle(len(r.work), func(i, j int) { r.work[i], r.work[j] = r.work[j], r.work[i] })
	slices.SortStableFunc(r.work, func(a,
		b entityKey) int {
		return strings.Compare(r.pattern.kind(a), r.pattern.kind(b))
	})
}

// kill is one death of a worker: at the nth hit of a point.
type kill struct {
	point string
	hit   int
}

// String is the kill as a fault plan.
func (k kill) String() string { return fmt.Sprintf("%s=kill@%d", k.point, k.hit) }

// text is the kill in words.
func (k kill) text() string { return fmt.Sprintf("killed at %s, hit %d", k.point, k.hit) }

// roundPlan is a share of the items and the deaths that come over the workers that work on them.
type roundPlan struct {
	keys  []entityKey
	kills []kill
}

// frozen reports whether the plan is to freeze a worker.
func (p roundPlan) frozen() bool { return len(p.kills) > 0 && p.kills[0].point == Frozen }

func (p roundPlan) String() string {
	if p.frozen() {
		return fmt.Sprintf("frozen after %d messages", p.kills[0].hit)
	}
	if len(p.kills) == 0 {
		return "no kill"
	}
	var texts []string
	for _, k := range p.kills {
		texts = append(texts, fmt.Sprintf("%s, hit %d", k.point, k.hit))
	}
	return "killed at " + strings.Join(texts, "; then at ")
}

// rounds is the number of rounds that there are.
func (r *run) rounds() int {
	steps := len(slices.DeleteFunc(slices.Clone(r.Points), func(p string) bool { return p == Frozen }))
	switch {
	case !r.Pairs:
		return max(1, len(r.Points))
	case r.SamplePairs > 0:
		return len(r.Points) + min(r.SamplePairs, steps*steps)
	}
	return len(r.Points) + steps*steps
}

// plan deals the items to the rounds.
func (r *run) plan() []roundPlan {
	var sequences, pairs [][]string
	for _, p := range r.Points {
		sequences = append(sequences, []string{p})
		for _, q := range r.Points {
			if p != Frozen && q != Frozen {
				pairs = append(pairs, []string{p, q})
			}
		}
	}
	if r.Pairs {
		if r.SamplePairs > 0 {
			r.random.Shuffle(len(pairs), func(i, j int) { pairs[i], pairs[j] = pairs[j], pairs[i] })
			pairs = pairs[:min(len(pairs), r.SamplePairs)]
		}
		sequences = append(sequences, pairs...)
	}
	if len(sequences) == 0 {
		sequences = [][]string{nil} // One round without a kill.
	}
	rounds := make([]roundPlan, len(sequences))
	for i, k := range r.work {
		round := &rounds[i%len(rounds)]
		round.keys = append(round.keys, k)
	}
	for i, points := range sequences {
		for _, p := range points {
			if p == Frozen {
				rounds[i].kills = []kill{{Frozen, min(lastInWork, r.pattern.concurrency()/2+1, len(rounds[i].keys))}}
				continue
			}
			// Each death has messages of its own, of which some must be left undone.
			most := max(1, r.pattern.passes(p, len(rounds[i].keys)/len(points))-r.pattern.concurrency())
			switch {
			case r.plain:
				most = 1
			case r.mistake != nil:
				most = min(mistakeHits, len(rounds[i].keys)/3+1)
			}
			rounds[i].kills = append(rounds[i].kills, kill{p, 1 + r.random.IntN(most)})
		}
	}
	return rounds
}

// batches deals a round's items to its deaths.
func (p roundPlan) batches() [][]entityKey {
	if p.frozen() {
		// From the end and the middle, which are of different kinds.
		n, half := p.kills[0].hit, len(p.keys)/2
		end, middle := len(p.keys)-n/2, half-(n-n/2)
		if middle < 0 || end < half {
			return [][]entityKey{p.keys[:n], p.keys[n:]}
		}
		return [][]entityKey{slices.Concat(p.keys[end:], p.keys[middle:half]),
			slices.Concat(p.keys[:middle], p.keys[half:end])}
	}
	batches := make([][]entityKey, max(1, len(p.kills)))
	for i, k := range p.keys {
		batch := &batches[i%len(batches)]
		*batch = append(*batch, k)
	}
	return batches
}

// ask puts messages for items, for some of them twice if that is to be.
func (r *run) ask(ctx context.Context, row *Row, keys []entityKey, twice bool) error {
	var bodies [][]byte
	for i, k := range keys {
		body, err := r.pattern.message(k)
		if err != nil {
			return err
		}
		bodies = append(bodies, body)
		if twice && !r.plain && r.teller == nil && r.mistake == nil && i%duplicateEvery == 0 {
			bodies = append(bodies, body)
		}
	}
	row.Messages += len(bodies)
	r.noteAsked()
	return r.queue.put(ctx, bodies)
}

// round works on one share of the items through its deaths.
func (r *run) round(ctx context.Context, number string, plan roundPlan) (Row, error) {
	begun := time.Now()
	row := Row{Point: plan.String(), Records: len(plan.keys), kills: plan.kills}
	batches := plan.batches()
	var frozen *child
	// A round without kills runs undisturbed in runUntilDone below: its work only has to be in the queue.
	if len(plan.kills) == 0 {
		if err := r.ask(ctx, &row, batches[0], true); err != nil {
			return row, err
		}
	}
	for i, k := range plan.kills {
		what := k.text()
		// The first share goes to the worker that freezes with leases in hand, the second to the one that takes over. So
		// both have work on the same items once the first goes on.
		if plan.frozen() {
			if err := r.ask(ctx, &row, batches[0], false); err != nil {
				return row, err
			}
			what = plan.String()
			r.say.update("round %s: the worker runs, to be frozen", number)
			var err error
			if frozen, err = r.runUntilFrozen(ctx); err != nil {
				return row, err
			}
			// Not before the end of the round: a stopped process ignores SIGTERM, and would outlive the program.
			defer frozen.Kill()
			if err := r.ask(ctx, &row, batches[1], true); err != nil {
				return row, err
			}
		} else if err := r.runUntilKilled(ctx, &row, number, batches[i], k); err != nil {
			return row, err
		}
		// The census between death and restart is the only time at which half-done work shows; afterwards it is repaired.
		if err := r.inspect(ctx, &row, plan.keys, number, what); err != nil {
			return row, err
		}
	}
	if err := r.next(ctx, "round %s: another worker finishes the work", number); err != nil {
		return row, err
	}
	restarted := time.Now()
	if err := r.runUntilDone(ctx, number); err != nil {
		return row, err
	}
	row.Recovered = time.Since(restarted)
	// Now all work is done by the other worker. What the frozen one still does with its old leases must change nothing,
	// which the final census shows; a second runUntilDone repeats what it put back.
	if frozen != nil {
		r.say.update("round %s: the frozen worker goes on with its stale leases", number)
		if err := r.letGoOn(ctx, frozen); err != nil {
			return row, err
		}
		if err := r.runUntilDone(ctx, number); err != nil {
			return row, err
		}
	}
	end, err := r.finalCensus(ctx, plan.keys, number)
	if err != nil {
		return row, err
	}
	row.set(end)
	row.end = end
	row.Took = time.Since(begun)
	what := "finished"
	if len(plan.kills) > 0 {
		what = "restarted, finished"
	}
	r.say.line("round %s: %s after %.1fs: %s", number, what, row.Recovered.Seconds(), row.verdict())
	return row, nil
}

// lateWrites is the number of times that a round is continued because of orphans.
const lateWrites = 3

// finalCensus counts the items at the end of a round. A write that a worker has given up may take effect after the last
// sweep: on a cluster, a node may execute it seconds later. What it leaves is an orphan that the next sweep removes, so
// the work goes on until it has.
func (r *run) finalCensus(ctx context.Context, keys []entityKey, number string) (census, error) {
	for try := 1; ; try++ {
		end, err := r.pattern.census(ctx, keys, true)
		if err != nil || len(end.Orphans) == 0 || try > lateWrites || r.mistake != nil {
			return end, err
		}
		r.say.line("round %s: a late write has left an orphan; the worker goes on", number)
		if err := r.runUntilDone(ctx, number); err != nil {
			return end, err
		}
	}
}

// inspect records where a share's items are right after a worker stopped.
func (r *run) inspect(ctx context.Context, row *Row, keys []entityKey, number, what string) error {
	at, err := r.pattern.census(ctx, keys, false)
	if err != nil {
		return err
	}
	left, err := r.queue.waiting(ctx)
	if err != nil {
		return err
	}
	row.atKill = append(row.atKill, at)
	r.noteState(at, keys, left)
	row.Crashes = append(row.Crashes,
		Crash{Moved: len(at.Moved), Kept: len(at.Kept), Both: len(at.Both), Lost: len(at.Lost), Orphaned: len(at.Orphans),
			Messages: left})
	r.say.line("round %s: %s: %d done, %d not yet, %d half, %d orphaned, %d messages left", number, what, len(at.Moved),
		len(at.Kept), len(at.Both), len(at.Orphans), left)
	return nil
}

const (
	// countsCurrent is the time that the nodes of a cluster may take until the number of messages that they give is right,
	// and emptyAnswers how many answers in turn must be right: each comes from another node.
	countsCurrent = 30 * time.Second
	emptyAnswers  = 6
)

// conclude counts everything once more, also what no round asked for.
func (r *run) conclude(ctx context.Context) error {
	problems, summary, err := r.pattern.conclude(ctx, r)
	if err != nil {
		return err
	}
	more, err := r.queue.problems(ctx)
	for began, empty := time.Now(), 0; r.Disturb != nil && err == nil && empty < emptyAnswers &&
		time.Since(began) < countsCurrent; {
		// The number of messages is approximate: a node that was started a moment ago may not have seen the last deletions.
		if empty++; len(more) > 0 {
			empty = 0
			time.Sleep(100 * time.Millisecond)
		}
		more, err = r.queue.problems(ctx)
	}
	if err != nil {
		return err
	}
	r.report.Problems, r.report.Summary = append(problems, more...), summary
	return nil
}
