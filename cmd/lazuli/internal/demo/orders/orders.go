// Package orders is the demonstration of sagas: orders are placed as durable workflows over a table, a queue and a
// blob, and each takes effect completely or not at all. naive.go has the same by a handler of messages.
package orders

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/lines"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/rig"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/story"
	taskhub "github.com/lazuli-storage/lazuli/internal/durable/hub"
	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/killrig"
	"github.com/lazuli-storage/lazuli/workers"
	"github.com/lazuli-storage/lazuli/workers/durable"
	"github.com/lazuli-storage/lazuli/workers/roles/saga"
)

// Settings are the settings of a worker process of the saga.
type Settings struct {
	ConnectionString                         string
	Hub, Orders, Archive, Payments, Receipts string
	// Visibility is the time for which the messages of a dead process stay hidden.
	Visibility time.Duration
	// Fault is a fault plan in the form that package fault parses; empty means none.
	Fault string
}

// Config describes a run of the saga's demonstration.
type Config struct {
	ConnectionString string
	// Worker returns the command of a worker process. It must stop gracefully on SIGTERM.
	Worker func(Settings) *exec.Cmd
	// Points are the steps at which workers are killed, and Frozen; nil means all.
	Points []string
	// Pairs also kills at every pair of steps; SamplePairs, if not 0, at so many of them.
	Pairs       bool
	SamplePairs int
	// Orders are placed in each round; 0 means 12. Random are placed in one more round, in which workers are killed at
	// random; 0 means none.
	Orders, Random int
	Seed           uint64
	// Story, if not 0, follows one order alone, counted from 1, and reports what happens to it. Every third one is
	// refused. Points has one step at most; nil chooses it.
	Story int
	// Patience bounds a round. 0 means 2 min.
	Patience time.Duration
	// Keep, Kept and Step are those of Config.
	Keep bool
	Kept func(names []string)
	Step func(ctx context.Context, next string) error
	// Visibility is that of the workers of a story, whose effects must not come twice because the machine is slow. 0 means
	// 2 s until the kill.
	Visibility time.Duration
	// Progress and Show are those of Config.
	Progress io.Writer
	Show     func(text string)
}

// Points returns the steps that a run visits by default.
func Points() []string {
	var points []string
	for _, p := range fault.Points() {
		name := string(p)
		// The others are steps of clients and of entities.
		if strings.HasPrefix(name, "durable/") && !strings.HasPrefix(name, "durable/purge") &&
			!strings.Contains(name, "entity") && name != "durable/after-start-message" {
			points = append(points, name)
		}
	}
	if killrig.HasSignals {
		points = append(points, rig.Frozen)
	}
	return points
}

// Row is one round.
type Row struct {
	Round string
	// Orders is the number of orders placed. Done and Compensated count those that took effect completely or not at all.
	// Half has all others.
	Orders, Done, Compensated int
	Half                      []string
	Kills                     int
	Took                      time.Duration

	first int // the number of the first order, counted from 0
}

// Report is the result of a run.
type Report struct {
	Seed uint64
	Rows []Row
	// Story is that of the order which the run followed, nil without one.
	Story *story.Story
}

// problems are the orders that took effect by half, and rounds without orders.
func (r *Report) problems() []string {
	var work []int
	for _, row := range r.Rows {
		work = append(work, row.Done+row.Compensated+len(row.Half))
	}
	return append(r.halves(), rig.Idle(work)...)
}

// halves are the orders that took effect by half.
func (r *Report) halves() (halves []string) {
	for _, row := range r.Rows {
		for _, h := range row.Half {
			halves = append(halves, row.Round+": "+h)
		}
	}
	return halves
}

// Err returns an error that wraps ErrInvariant if an order took effect by half, or nil.
func (r *Report) Err() error { return rig.Violated(r.problems()) }

// JSON returns the report as an object for encoding/json, with the units of [Report.JSON].
func (r *Report) JSON() any {
	type round struct {
		Round       string  `json:"round"`
		Kills       int     `json:"kills"`
		Orders      int     `json:"orders"`
		Done        int     `json:"done"`
		Compensated int     `json:"compensated"`
		Half        int     `json:"half"`
		Took        float64 `json:"tookSeconds"`
	}
	rounds := []round{}
	for _, row := range r.Rows {
		rounds = append(rounds, round{row.Round, row.Kills, row.Orders, row.Done, row.Compensated, len(row.Half),
			row.Took.Seconds()})
	}
	return struct {
		Seed     string   `json:"seed"`
		Rounds   []round  `json:"rounds"`
		Problems []string `json:"problems"`
	}{strconv.FormatUint(r.Seed, 10), rounds, rig.Listed(r.problems())}
}

// WriteTable prints one line for each round, and the sum.
func (r *Report) WriteTable(w io.Writer) error {
	if r.Story != nil {
		p := &lines.Printer{W: w}
		r.Story.Write(p)
		return p.Err
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "ROUND\tKILLS\tORDERS\tDONE\tCOMPENSATED\tHALF\tTOOK")
	// A row for the sum: one look at "all" must show whether any order is half done.
	var sum Row
	half := 0
	for _, row := range r.Rows {
		fmt.Fprintf(tw, "%s\t%d\t%d\t%d\t%d\t%d\t%v\n", row.Round, row.Kills, row.Orders, row.Done, row.Compensated,
			len(row.Half), row.Took.Round(100*time.Millisecond))
		sum.Orders, sum.Done, sum.Compensated, sum.Kills = sum.Orders+row.Orders, sum.Done+row.Done,
			sum.Compensated+row.Compensated, sum.Kills+row.Kills
		half += len(row.Half)
	}
	fmt.Fprintf(tw, "all\t%d\t%d\t%d\t%d\t%d\t\n", sum.Kills, sum.Orders, sum.Done, sum.Compensated, half)
	if err := tw.Flush(); err != nil {
		return err
	}
	p := &lines.Printer{W: w}
	p.Line("seed %d\n\nWords:", r.Seed)
	p.Entry("DONE", storyDone)
	p.Entry("COMPENSATED", storyCompensated)
	p.Entry("HALF", "anything in between; never allowed")
	p.Entry("KILLS", "workers that were killed; messages were delivered twice besides, and leases broken")
	return p.Err
}

// What the ends of an order mean.
const (
	storyDone        = "reserved, charged, with a receipt, and moved to the other table"
	storyCompensated = "refused at the last step: the charge is refunded, the reservation released, no receipt is left"
)

func (r *Report) Counts() (items, damaged int) {
	for _, row := range r.Rows {
		items += row.Orders
		damaged += len(row.Half)
	}
	return items, damaged
}

// run is a demonstration of the saga at work.
type run struct {
	Config
	settings Settings
	storage  *workers.Storage
	saga     *saga.Saga
	client   *taskhub.Client
	random   *rand.Rand
	payments map[string]map[string]bool // kinds by order
	report   Report
	say      *rig.Progress
	teller   *story.Teller // nil without a story
}

// Run runs the demonstration of the saga. The report is complete as far as the run came, also when an error is
// returned.
func Run(ctx context.Context, c Config) (_ *Report, err error) {
	if c.Orders == 0 {
		c.Orders = 12
	}
	if err := c.checkStory(); err != nil {
		return nil, err
	}
	if c.Points == nil {
		c.Points = Points()
	}
	if c.Patience == 0 {
		c.Patience = 2 * time.Minute
	}
	storage, err := workers.OpenStorage(c.ConnectionString)
	if err != nil {
		return nil, err
	}
	id := fmt.Sprintf("%x", time.Now().UnixNano())
	r := &run{Config: c, storage: storage, random: rig.NewRandom(c.Seed), payments: map[string]map[string]bool{},
		report: Report{Seed: c.Seed}, say: rig.NewProgress(c.Progress, c.Show),
		settings: Settings{ConnectionString: c.ConnectionString, Hub: "Demo" + id, Orders: "LazuliDemoOrders" + id,
			Archive:  "LazuliDemoSold" + id,
			Payments: "lazuli-demo-payments-" + id, Receipts: "lazuli-demo-receipts-" + id, Visibility: 2 * time.Second}}
	r.saga = Of(storage, r.settings)
	if c.Story > 0 {
		if r.teller, err = newTeller(r.settings, id); err != nil {
			return nil, err
		}
		defer r.teller.Close()
		r.settings.Visibility = cmp.Or(c.Visibility, r.settings.Visibility)
	}
	if err := r.saga.Create(ctx); err != nil {
		return nil, err
	}
	hub, err := taskhub.New(r.options())
	if err != nil {
		return nil, err
	}
	if err := hub.CreateTaskHub(ctx); err != nil {
		return nil, err
	}
	r.client = hub.Client()
	if c.Keep {
		defer func() {
			err = errors.Join(err, (&rig.Config{Kept: c.Kept}).ReportKept(ctx, storage, id))
		}()
	} else {
		defer func() {
			clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
			defer cancel()
			err = errors.Join(err, hub.DeleteTaskHub(clean), r.remove(clean))
		}()
	}
	if err := r.rounds(ctx); err != nil { // Rounds are missing then.
		return &r.report, errors.Join(err, rig.Violated(r.report.halves()))
	}
	return &r.report, r.report.Err()
}

func (r *run) options() taskhub.Options {
	return taskhub.Options{Storage: r.storage, Hub: r.settings.Hub, Visibility: r.settings.Visibility,
		Logger: slog.New(slog.DiscardHandler)}
}

func Of(storage *workers.Storage, s Settings) *saga.Saga {
	return &saga.Saga{Storage: storage, Orders: s.Orders, Archive: s.Archive, Payments: s.Payments, Receipts: s.Receipts}
}

// RunWorker is the body of a worker's process.
func RunWorker(ctx context.Context, storage *workers.Storage, log *slog.Logger, s Settings) error {
	engine := durable.NewEngine(durable.Options{Hub: s.Hub, Visibility: s.Visibility, LeaseDuration: 15 * time.Second,
		MaxOrchestrations: 8, MaxActivities: 8})
	app := workers.New(workers.Config{Storage: storage, Logger: log, Durable: engine, DrainTimeout: 10 * time.Second})
	Of(storage, s).Register(app)
	return app.Run(ctx)
}

func (r *run) rounds(ctx context.Context) error {
	var rounds [][]string
	steps := slices.DeleteFunc(slices.Clone(r.Points), func(p string) bool { return p == rig.Frozen })
	for _, p := range r.Points {
		rounds = append(rounds, []string{p})
	}
	if r.Pairs {
		var pairs [][]string
		for _, p := range steps {
			for _, q := range steps {
				pairs = append(pairs, []string{p, q})
			}
		}
		if r.SamplePairs > 0 {
			r.random.Shuffle(len(pairs), func(i, j int) { pairs[i], pairs[j] = pairs[j], pairs[i] })
			pairs = pairs[:min(len(pairs), r.SamplePairs)]
		}
		rounds = append(rounds, pairs...)
	}
	if len(rounds) == 0 && r.Random == 0 {
		rounds = [][]string{nil} // One round without a kill.
	}
	began, all := time.Now(), len(rounds)+min(r.Random, 1)
	for i, points := range rounds {
		r.say.Rounds(i, all, time.Since(began))
		name := "no kill"
		if len(points) > 0 {
			name = strings.Join(points, ", ")
		}
		if r.Step != nil {
			err := r.Step(ctx, fmt.Sprintf("round %d/%d: orders are placed; workers are killed: %s", i+1, all, name))
			if err != nil {
				return err
			}
		}
		r.say.Update("round %d/%d: workers are killed: %s", i+1, all, name)
		err := r.round(ctx, fmt.Sprintf("r%d-", i), name, r.Orders, func(ctx context.Context, row *Row) error {
			if slices.Contains(points, rig.Frozen) {
				return r.freeze(ctx, row)
			}
			return r.kill(ctx, row, points)
		})
		if err != nil {
			return err
		}
	}
	if r.Random > 0 {
		r.say.Rounds(len(rounds), all, time.Since(began))
		r.say.Update("round %d/%d: workers are killed at random", all, all)
		return r.round(ctx, "random-", "killed at random", r.Random, r.killAtRandom)
	}
	return nil
}

// round places orders, lets work run its course, and counts.
func (r *run) round(ctx context.Context, prefix, name string, orders int,
	work func(context.Context, *Row) error) error {
	began := time.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, r.Patience, fmt.Errorf("%s: not over after %v", name, r.Patience))
	defer cancel()
	row := Row{Round: name, Orders: orders}
	if r.teller != nil {
		row.first, row.Orders = r.Story-1, 1
		r.teller.Follow(fmt.Sprint(prefix, row.first))
		r.teller.Note(story.Event{From: story.Program, To: story.History, Text: "starts the workflow of an order",
			Kind: story.Kinds["table"]})
	}
	for i := row.first; i < row.first+row.Orders; i++ {
		// Every third payment is refused, so that each round has orders that end and orders that are compensated. census
		// expects the same third.
		o := saga.Order{ID: fmt.Sprint(prefix, i), Item: "tea", Refused: i%3 == 2}
		text, err := json.Marshal(o)
		if err != nil {
			return err
		}
		if _, err := r.client.Start(ctx, "order", taskhub.StartOptions{InstanceID: o.ID, Input: string(text)}); err != nil {
			return err
		}
	}
	// Duplicates would be arrows in the story that the reader cannot explain.
	if r.teller == nil {
		if err := r.duplicate(ctx); err != nil {
			return err
		}
	}
	if err := work(ctx, &row); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if err := r.census(ctx, prefix, &row); err != nil {
		return err
	}
	row.Took = time.Since(began)
	r.report.Rows = append(r.report.Rows, row)
	r.endStory(&row)
	r.say.Line("%s: %d done, %d compensated, %d half, %v", name, row.Done, row.Compensated, len(row.Half),
		row.Took.Round(time.Millisecond))
	return nil
}

func (r *run) start(plan string) (*rig.Child, error) {
	s := r.settings
	s.Fault = plan
	if r.teller != nil {
		if plan == "" {
			s.Visibility = rig.LongLease
		}
		var err error
		if s.ConnectionString, err = r.teller.Connection(); err != nil {
			return nil, err
		}
	}
	return rig.StartChild(r.Worker(s))
}

// kill runs workers that are killed at the points, and one that finishes.
func (r *run) kill(ctx context.Context, row *Row, points []string) error {
	for _, p := range points {
		// The n-th time that a worker comes to the point: otherwise only the first order would ever be killed there.
		hit := 1 + r.random.IntN(6)
		if r.teller != nil {
			hit = storyHit
		}
		worker, err := r.start(rig.Kill{Point: p, Hit: hit}.String())
		if err != nil {
			return err
		}
		if err := worker.WaitForKill(ctx); err != nil {
			return err
		}
		// Counted before the disturbance: the worker is dead, whatever fails next.
		row.Kills++
		disturb := r.disturb
		if r.teller != nil {
			disturb = func(ctx context.Context) error { return errors.Join(r.noteKill(ctx, p), r.breakLeases(ctx)) }
		}
		if err := disturb(ctx); err != nil {
			return err
		}
	}
	return r.finish(ctx)
}

// freeze stops a worker in the middle of a commit until another one has finished its work, and lets it go on then.
func (r *run) freeze(ctx context.Context, row *Row) error {
	// Before the commit the worker has done the step and has not written it. Once it goes on, its commit must fail:
	// another worker has moved the history.
	const point = "durable/before-commit"
	hit := 1 + r.random.IntN(6)
	worker, err := r.start(fmt.Sprintf("%s=say@%d,%s=stop@%d", point, hit, point, hit))
	if err != nil {
		return err
	}
	defer worker.Kill()
	err = rig.Every(ctx, 10*time.Millisecond, func() (bool, error) {
		if !worker.Running() {
			return false, fmt.Errorf("the worker exited without SIGKILL: %w\n%s", worker.Err(), worker.Output())
		}
		return strings.Contains(worker.Output(), "fault: "+point), nil
	})
	if err != nil {
		return err
	}
	// Breaks the leases, as their end would, so that the other worker need not wait for it.
	if err := r.disturb(ctx); err != nil {
		return err
	}
	if err := r.finish(ctx); err != nil {
		return err
	}
	// Only after the other worker has finished all orders: every write of this one is now stale.
	if err := worker.Resume(); err != nil {
		return err
	}
	return worker.Stop(ctx)
}

// killAtRandom keeps two workers running of which one or the other is killed, until a tenth of the orders is left; then
// it lets them finish.
func (r *run) killAtRandom(ctx context.Context, row *Row) error {
	list := make([]*rig.Child, 2)
	defer func() {
		for _, c := range list {
			if c != nil {
				c.Kill()
			}
		}
	}()
	// A tenth is left for the end without kills: with a kill every second or two the last orders might never finish.
	for left := row.Orders; left > row.Orders/10; {
		i := r.random.IntN(len(list))
		// The first one or two times there is no worker to kill yet, and the loop only starts them.
		if list[i] != nil {
			list[i].Kill()
			row.Kills++
		}
		for i := range list {
			if list[i] == nil || !list[i].Running() {
				var err error
				if list[i], err = r.start(""); err != nil {
					return err
				}
			}
		}
		if err := r.disturb(ctx); err != nil {
			return err
		}
		select {
		// Long enough for a worker to begin, and to be killed at another step each time.
		case <-time.After(time.Second + time.Duration(r.random.Int64N(int64(2*time.Second)))):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		var err error
		if left, err = r.unfinished(ctx, "random-"); err != nil {
			return err
		}
	}
	return rig.Every(ctx, 100*time.Millisecond, func() (bool, error) {
		n, err := r.unfinished(ctx, "")
		return n == 0, err
	})
}

// finish runs a worker until all orders have ended.
func (r *run) finish(ctx context.Context) error {
	worker, err := r.start("")
	if err != nil {
		return err
	}
	defer worker.Kill()
	err = rig.Every(ctx, 50*time.Millisecond, func() (bool, error) {
		if !worker.Running() {
			return false, fmt.Errorf("the worker exited without SIGKILL: %w\n%s", worker.Err(), worker.Output())
		}
		n, err := r.unfinished(ctx, "")
		return n == 0, err
	})
	if err != nil {
		return fmt.Errorf("%w\n%s", err, worker.Output())
	}
	return worker.Stop(ctx)
}

// unfinished counts the instances that still run.
func (r *run) unfinished(ctx context.Context, prefix string) (n int, err error) {
	q := taskhub.Query{Prefix: prefix, Status: []string{"Pending", "Running"}, Top: 1000}
	for {
		page, err := r.client.Query(ctx, q)
		if err != nil {
			return 0, err
		}
		n += len(page.Instances)
		if q.Continuation = page.Continuation; q.Continuation == "" {
			return n, nil
		}
	}
}
