package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/console"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/design"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/eventual"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/index"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/lake"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/large"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/lesson"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/logdata"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/outbox"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/rig"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/search"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/target"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/workerproc"
	"github.com/lazuli-storage/lazuli/internal/azure/accountprops"
	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/killrig"
	"github.com/lazuli-storage/lazuli/internal/sdk/connstr"
	"github.com/lazuli-storage/lazuli/internal/server"
	"github.com/lazuli-storage/lazuli/workers"
)

// newDemoCommand makes `lazuli demo`.
func newDemoCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Test a pattern or built-in role by killing its workers at every step",
	}
	for _, d := range demonstrations {
		cmd.AddCommand(newDemonstrationCommand(d))
	}
	for i := range design.Designs {
		d := &design.Designs[i]
		cmd.AddCommand(newDemonstrationCommand(demonstration{name: d.Name, short: d.Short, long: d.Long, points: d.Points(),
			run: d.Demonstrate, clustered: true, worker: patternWorker}))
	}
	for name, run := range map[string]func(context.Context, *workers.Storage, *workers.App, rig.WorkerSettings) error{
		"large-entity-worker": large.RunWorker, "table-index-worker": index.RunWorker,
		"search-worker": search.RunWorker, "pattern-worker": design.RunWorker, "lake-worker": lake.RunWorker,
		"outbox-worker": outbox.RunWorker, "jobs-worker": outbox.RunJobsWorker, "naive-worker": demo.RunNaiveWorker,
	} {
		cmd.AddCommand(newDemonstrationWorkerCommand(name, run))
	}
	cmd.AddCommand(newDemonstrationListCommand(), newAllDemonstrationsCommand(), newSagaCommand(), newSagaWorkerCommand())
	return cmd
}

// demonstrationVerbs returns the verbs beside ls and all; cmd is one of these two.
func demonstrationVerbs(cmd *cobra.Command) (list []*cobra.Command) {
	for _, verb := range cmd.Parent().Commands() {
		if verb.IsAvailableCommand() && verb.Name() != "ls" && verb.Name() != "all" && verb.Name() != "help" {
			list = append(list, verb)
		}
	}
	slices.SortFunc(list, func(a, b *cobra.Command) int { return demo.Number(a.Name()) - demo.Number(b.Name()) })
	return list
}

// newDemonstrationListCommand makes `lazuli demo ls`.
func newDemonstrationListCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "ls", Short: "List the demonstrations", Args: cobra.NoArgs}
	begin := console.ListOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		out := begin()
		for _, verb := range demonstrationVerbs(cmd) {
			number := demo.Number(verb.Name())
			err = errors.Join(err, out.Add(struct {
				Number int    `json:"number"`
				Name   string `json:"name"`
				About  string `json:"about"`
			}{number, verb.Name(), verb.Short}, fmt.Sprintf("%02d", number), verb.Name(), verb.Short))
		}
		return out.End(err)
	}
	return cmd
}

// newAllDemonstrationsCommand makes `lazuli demo all`.
func newAllDemonstrationsCommand() *cobra.Command {
	var quiet bool
	cmd := &cobra.Command{Use: "all", Short: "Run all demonstrations in sequence", Args: cobra.NoArgs,
		Long: "Run all demonstrations in sequence, each with the defaults of its verb. The exit code is 0 if all checks " +
			"of all demonstrations pass."}
	connection := target.OverrideFlag(cmd, "a Lazuli that each verb starts")
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "do not show progress on standard error")
	asJSON := cmd.Flags().Bool("json", false, "for each demonstration")
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		heading := cmd.OutOrStdout()
		if *asJSON {
			heading = io.Discard
		}
		// Each verb runs through its own flags and checks, so "demo all" cannot do what the verbs alone do not.
		for _, verb := range demonstrationVerbs(cmd) {
			verb.SetContext(cmd.Context())
			set := errors.Join(verb.Flags().Set("quiet", strconv.FormatBool(quiet)),
				verb.Flags().Set("json", strconv.FormatBool(*asJSON)))
			if c := connection(); c != "" {
				set = errors.Join(set, verb.Flags().Set("connection-string", c))
			}
			if set != nil {
				return set
			}
			fmt.Fprintf(heading, "%s: %s\n\n", verb.Name(), verb.Short)
			// A failed demonstration does not end the others: the reader wants to know whether one pattern broke or all.
			if e := verb.RunE(verb, nil); e != nil {
				err = errors.Join(err, fmt.Errorf("%s: %w", verb.Name(), e))
			}
			fmt.Fprintln(heading)
			// Ctrl-C ends the series, not only the demonstration that runs.
			if cmd.Context().Err() != nil {
				break
			}
		}
		return err
	}
	return cmd
}

// demonstrationReport is the result of a demonstration.
type demonstrationReport interface {
	WriteTable(io.Writer) error
	JSON() any
}

// demonstrationOutput adds --json to cmd, and returns a function that prints the report of a run that ended with err: a
// table, or one JSON object.
func demonstrationOutput(cmd *cobra.Command) func(report demonstrationReport, err error) error {
	output := console.ReportOutput(cmd)
	return func(report demonstrationReport, err error) error {
		return output(struct {
			Name   string `json:"name"`
			Passed bool   `json:"passed"`
			Report any    `json:"report"`
		}{cmd.Name(), err == nil, report.JSON()}, report.WriteTable)
	}
}

// demonstration is a verb of `lazuli demo`.
type demonstration struct {
	name, short, long string
	// role is the name that the demonstration had first, that of its role.
	role   string
	points []string
	run    func(context.Context, rig.Config) (*rig.Report, error)
	// clustered means that it can run on a cluster whose nodes are killed.
	clustered bool
	// hierarchical means that the account needs a hierarchical namespace.
	hierarchical bool
	// worker are the arguments of its worker's process.
	worker func(rig.WorkerSettings) []string
}

var demonstrations = []demonstration{
	{
		name: "eventual-transaction", role: "archive", short: "Archive real records",
		points: eventual.Points(), run: eventual.Run, clustered: true,
		long: `The demonstration loads several thousand records into the table Current. The role moves old records to the table Archive,
each on request of a queue message. At the end, each record must be unchanged, and in the correct table only.`,
		worker: func(w rig.WorkerSettings) []string {
			return []string{"worker", "--role=archive", "--archive-queue=" + w.Queue, "--archive-from=" + w.Current,
				"--archive-to=table:" + w.Archive}
		},
	},
	{
		name: "large-entities", role: "large-entity", short: "Write and delete large entities",
		points: large.Points(), run: large.Run, clustered: true,
		long: `Entities with properties beyond the limits of the Table service are inserted, replaced and deleted, each on request of
a queue message; the workers also sweep. At the end, the hashes of all entities must match; every blob must be referenced by an
entity, and every reference must have its blob.`,
		worker: func(w rig.WorkerSettings) []string {
			return []string{"demo", "large-entity-worker", "--queue=" + w.Queue, "--from=" + w.Current,
				"--container=" + w.Container, "--story=" + strconv.FormatBool(w.Story)}
		},
	},
	{
		name: "log-data", role: "log-storage", short: "Log records",
		points: logdata.Points(), run: logdata.Run, clustered: true,
		long: `The demonstration puts several thousand records to a queue; the role writes them to a log. At the end, a query must return each
record once and unchanged, and each blob's metadata must match its content.`,
		worker: func(w rig.WorkerSettings) []string {
			return []string{"worker", "--role=log-storage", "--log-storage-queue=" + w.Queue,
				"--log-storage-container=" + w.Container, "--log-storage-flush-every=50ms"}
		},
	},
	{
		name: "inter-partition-index", role: "index", short: "Keep an index of copies in step with a table",
		points: index.Points(index.Copies), run: index.RunCopies,
		long: `Records are inserted, changed and deleted, each on request of a queue message, and a second table keeps a copy of each under
its party (inter-partition secondary index). At the end, the copies must match the records exactly.`,
		worker: tableIndexWorker,
	},
	{
		name: "index-entities", short: "Keep lists of keys in step with a table",
		points: index.Points(index.Lists), run: index.RunLists,
		long: `Records are inserted, changed and deleted, each on request of a queue message, and a second table keeps, for each state and
party, the list of their keys (index entities). At the end, every key must be in the correct list and no other.`,
		worker: tableIndexWorker,
	},
	{
		name: "materialised-view", role: "view", short: "Keep counts in step with a table",
		points: index.Points(index.Counts), run: index.RunCounts,
		long: `Records are inserted, changed and deleted, each on request of a queue message, and a second table keeps, for each state, how
many records there are of each party (materialised view). At the end, all counts must be correct.`,
		worker: tableIndexWorker,
	},
	{
		name: "outbox", short: "Write rows and messages in one transaction",
		points: outbox.Points(), run: outbox.Run,
		long: `Rows are inserted, each on request of a queue message, together with a message for another queue (workers.EnqueueIn), and a role
delivers these messages. At the end, every row must have its message, and every message its row.`,
		worker: func(w rig.WorkerSettings) []string {
			return []string{"demo", "outbox-worker", "--queue=" + w.Queue, "--from=" + w.Current, "--to=" + w.Archive}
		},
	},
	{
		name: "jobs", short: "Enqueue unique jobs again and again",
		points: outbox.JobPoints(), run: outbox.RunJobs,
		long: `Items are enqueued as jobs, each on request of a queue message, twice and under a unique key (workers.EnqueueJob), and the jobs
note that they ran. At the end, one job must have run for every item, and none may be left.`,
		worker: func(w rig.WorkerSettings) []string {
			return []string{"demo", "jobs-worker", "--queue=" + w.Queue, "--from=" + w.Current, "--to=" + w.Archive}
		},
	},
	{
		name: "search", short: "Keep a full-text index in step with a table",
		points: search.Points(), run: search.Run,
		long: `Records are inserted, changed and deleted, each on request of a queue message, and the role search-index keeps an index of them,
by the table's changes on Lazuli and by messages elsewhere. Workers that are killed around the start or the switch of an index build
it again. At the end, every record must have its document in the index, and every document its record.`,
		worker: func(w rig.WorkerSettings) []string {
			return []string{"demo", "search-worker", "--queue=" + w.Queue, "--from=" + w.Current, "--folder=" + w.Folder,
				"--kind=" + w.Kind}
		},
	},
	{
		name: "lake", short: "Commit batches to a table of files by renames",
		points: lake.Points(), run: lake.Run, hierarchical: true,
		long: `Writers commit batches of real records to a table of partitioned files, as Spark does: each task writes to a directory of
its own below _temporary and commits by a rename, and the job commits by one more. Two writers can work on a batch at a time. A reader
looks at the table all the time: it must see each batch whole or not at all. At the end, all files must be unchanged, and nothing
temporary may be left. The account must have a hierarchical namespace.`,
		worker: func(w rig.WorkerSettings) []string {
			return []string{"demo", "lake-worker", "--queue=" + w.Queue, "--container=" + w.Container}
		},
	},
}

// tableIndexWorker are the arguments of the worker of the demonstrations of the table-index role.
func tableIndexWorker(w rig.WorkerSettings) []string {
	return []string{"demo", "table-index-worker", "--queue=" + w.Queue, "--from=" + w.Current, "--to=" + w.Archive,
		"--kind=" + w.Kind, "--story=" + strconv.FormatBool(w.Story)}
}

// patternWorker are the arguments of the worker of the demonstrations of patterns that have no role.
func patternWorker(w rig.WorkerSettings) []string {
	return []string{"demo", "pattern-worker", "--queue=" + w.Queue, "--from=" + w.Current, "--kind=" + w.Kind}
}

// naiveWorker are the arguments of the worker that makes a mistake.
func naiveWorker(w rig.WorkerSettings) []string {
	return []string{"demo", "naive-worker", "--mistake=" + w.Mistake, "--queue=" + w.Queue, "--from=" + w.Current,
		"--to=" + w.Archive, "--container=" + w.Container, "--kind=" + w.Kind, "--folder=" + w.Folder}
}

// aliases are the other names of the verb.
func (d demonstration) aliases() []string {
	if d.role == "" {
		return nil
	}
	return []string{d.role}
}

// frozenText describes the round in which a worker is frozen, if there is one.
func frozenText(points []string) string {
	if !slices.Contains(points, rig.Frozen) {
		return ""
	}
	return ` In one more round the worker is frozen until its leases have
expired, and continues after another worker has finished: it must not change the result.`
}

// demoNodes is the number of nodes with --kill-nodes, maxNodeDown the longest time that a killed one is not started
// again.
const (
	demoNodes   = 3
	maxNodeDown = 3 * time.Second
)

func newDemonstrationCommand(d demonstration) *cobra.Command {
	var (
		c     rig.Config
		nodes bool
	)
	cmd := &cobra.Command{
		Use:     d.name,
		Aliases: d.aliases(),
		Short:   d.short,
		Long: d.short + `.

` + d.long + `

For every step, a worker process is started and kills itself with SIGKILL when it reaches that step; another
worker is started and finishes the work. Then all items are counted; the queue and the poison queue must be empty. Every tenth
message is put twice, since a queue can deliver a message twice.` + frozenText(d.points) + `

The exit code is 0 if all checks pass. Without a connection string, the command starts a Lazuli server with a temporary data
folder. It creates resources with unique names and deletes them at the end.

Steps: ` + strings.Join(d.points, ", "),
		Example: fmt.Sprintf(`  lazuli demo %[1]s
  lazuli demo %[1]s --fault %[2]s --seed 42
  lazuli demo %[1]s --pairs
  lazuli demo %[1]s --connection-string UseDevelopmentStorage=true`, d.name, d.points[1]),
		Args: cobra.NoArgs,
	}
	connection := target.OverrideFlag(cmd, "a Lazuli that the verb starts")
	fl, complete := cmd.Flags(), runFlags(cmd, d.points, &c)
	fl.IntVar(&c.Records, "records", 0, "number of records or items (default: as many as the rounds need, at most 2792)")
	fl.DurationVar(&c.Lease, "lease", time.Second,
		"lease of messages: how long those of a killed worker stay hidden; whole seconds")
	fl.DurationVar(&c.Patience, "patience", time.Minute, "time limit of a round, after which its messages count as stuck")
	print := demonstrationOutput(cmd)
	if d.clustered {
		fl.BoolVar(&nodes, "kill-nodes", false,
			"start a cluster of three nodes, and kill one after the other while the demonstration runs")
	}
	class := classroomFlags(cmd, &c, demo.MistakesOf(d.name)).storyFlags()
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if nodes && connection() != "" {
			return console.Usagef("--kill-nodes starts a cluster of its own: it cannot be used with a connection string")
		}
		if nodes && !cmd.Flags().Changed("patience") {
			c.Patience = 3 * time.Minute
		}
		if c.SamplePairs < 0 || c.Records < 0 || c.SamplePairs > 0 && !c.Pairs {
			return console.Usagef("--records and --sample-pairs must not be negative, and --sample-pairs needs --pairs")
		}
		if c.Lease < time.Second || c.Lease%time.Second != 0 {
			return console.Usagef("--lease %v is not a whole number of seconds", c.Lease)
		}
		if err := class.check(nodes); err != nil {
			return err
		}
		end, err := complete(class.steps(d.points))
		if err != nil {
			return err
		}
		defer end()
		c.ConnectionString = connection()
		stop, err := d.begin(cmd.Context(), &c, nodes, class)
		if err != nil {
			return err
		}
		report, err := class.run(cmd.Context(), c, d.points, func(ctx context.Context, c rig.Config) (lesson.PatternReport,
			error) {
			r, err := d.run(ctx, c)
			if r == nil { // not a report that is a nil pointer
				return nil, err
			}
			return r, err
		})
		if report != nil {
			err = errors.Join(err, print(report, err), class.writePage(report))
		}
		class.showKept(cmd.Context(), err)
		return errors.Join(err, stop())
	}
	return cmd
}

// runFlags adds the flags that all demonstrations have, and returns what completes c by them; points are then the steps
// of the run. end removes the progress.
func runFlags(cmd *cobra.Command, points []string, c *rig.Config) (complete func(points []string) (end func(),
	err error)) {
	fl := cmd.Flags()
	faults := fl.StringSlice("fault", []string{"all"}, "steps at which to kill: all, none, or names")
	console.OfferValues(cmd, "fault", append([]string{"all", "none"}, points...)...)
	fl.BoolVar(&c.Pairs, "pairs", false, "also kill at every pair of steps: the restarted worker is killed too")
	fl.IntVar(&c.SamplePairs, "sample-pairs", 0, "number of pairs, chosen by the seed; 0: all")
	fl.Uint64Var(&c.Seed, "seed", 0, "seed of the random choices, to repeat a run (default: random)")
	quiet := fl.BoolP("quiet", "q", false, "do not show progress on standard error")
	return func(points []string) (end func(), err error) {
		switch {
		// An empty list means "all" to the harness; --fault= must not become that by accident.
		case len(*faults) == 0:
			return nil, console.Usagef("--fault names no step; to kill at none, say none")
		case slices.Equal(*faults, []string{"none"}):
			// Empty, not nil: nil means all points.
			c.Points = []string{}
		case !slices.Equal(*faults, []string{"all"}):
			c.Points = *faults
		}
		for _, f := range c.Points {
			if !slices.Contains(points, f) {
				return nil, console.Usagef("--fault: unknown step %q; the steps are %s", f, strings.Join(points, ", "))
			}
		}
		// The seed is drawn here so that the report prints it, and the run can be repeated; 0 is a seed like others if it
		// is given.
		if !fl.Changed("seed") {
			c.Seed = rand.Uint64()
		}
		if *quiet {
			return func() {}, nil
		}
		c.Progress = cmd.ErrOrStderr()
		m := console.NewMeter(cmd, "", nil)
		if m != nil {
			// Lines go above the meter; written past it they would be overwritten by its next update.
			c.Progress, c.Show = console.Above{Writer: c.Progress, End: m.End}, m.Say
		}
		return m.End, nil
	}
}

// begin completes a configuration by the account, a cluster or server that it starts where it is missing, and by the
// worker. stop ends what it has started.
func (d demonstration) begin(ctx context.Context, c *rig.Config, killNodes bool, class *classroom) (stop func() error,
	err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	// The workers are this same program: what is killed has the code that is shipped.
	c.Worker = func(w rig.WorkerSettings) *exec.Cmd { return d.command(self, w) }
	if !killNodes {
		// Without kills of nodes one server in this process is enough: it elects no leader and starts at once.
		return class.account(ctx, &c.ConnectionString, d.hierarchical)
	}
	folder, err := os.MkdirTemp("", "lazuli-demo-")
	if err != nil {
		return nil, err
	}
	cluster, err := killrig.StartCluster(ctx, folder, demoNodes,
		func(args ...string) *exec.Cmd { return lazuliCommand(self, args...) })
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start the cluster of the demonstration: %w", err), os.RemoveAll(folder))
	}
	c.ConnectionString = cluster.ConnectionString()
	// A stream of its own from the seed: how often nodes are killed depends on the machine, and must not shift the
	// harness's choices.
	random := rand.New(rand.NewPCG(c.Seed, 1))
	c.Disturb = func(ctx context.Context, say func(string, ...any)) (int, error) {
		return cluster.Harass(ctx, random, maxNodeDown, say)
	}
	// Nodes end before their folder goes; one that is still running would write it again.
	return func() error { cluster.Close(); return os.RemoveAll(folder) }, nil
}

// command is the command line of a worker process. What is secret goes through the environment.
func (d demonstration) command(self string, w rig.WorkerSettings) *exec.Cmd {
	args := d.worker
	if w.Mistake != "" {
		args = naiveWorker
	}
	cmd := exec.Command(self, append(args(w), "--lease="+w.Lease.String(),
		"--concurrency="+strconv.Itoa(w.Concurrency), "--max-dequeue-count="+strconv.Itoa(w.MaxDequeueCount))...)
	cmd.Args[0] = "lazuli"
	cmd.Env = append(os.Environ(), connstr.Variable+"="+w.ConnectionString, fault.EnvVar+"="+w.Fault)
	return cmd
}

// newDemoWorkerCommand makes a hidden verb whose process a demonstration kills. flags maps flags with text to their
// variables. run runs the worker on the storage account, and with the fault plan, of the environment.
func newDemoWorkerCommand(use string, flags map[string]*string,
	run func(ctx context.Context, storage *workers.Storage, log *slog.Logger) error) *cobra.Command {
	cmd := &cobra.Command{Use: use, Hidden: true, Args: cobra.NoArgs}
	for name, to := range flags {
		cmd.Flags().StringVar(to, name, "", "")
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		log := slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil))
		if err := workerproc.FaultsFromEnvironment(log); err != nil {
			return err
		}
		storage, err := workers.OpenStorage(os.Getenv(connstr.Variable))
		if err != nil {
			return console.Usage(err)
		}
		return run(cmd.Context(), storage, log)
	}
	return cmd
}

// newDemonstrationWorkerCommand makes the hidden verb of a worker that messages trigger.
func newDemonstrationWorkerCommand(name string,
	run func(context.Context, *workers.Storage, *workers.App, rig.WorkerSettings) error) *cobra.Command {
	var s rig.WorkerSettings
	flags := map[string]*string{"queue": &s.Queue, "from": &s.Current, "to": &s.Archive, "container": &s.Container,
		"kind": &s.Kind, "folder": &s.Folder, "mistake": &s.Mistake}
	cmd := newDemoWorkerCommand(name, flags, func(ctx context.Context, storage *workers.Storage, log *slog.Logger) error {
		s.Fault, s.ConnectionString = os.Getenv(fault.EnvVar), os.Getenv(connstr.Variable)
		return run(ctx, storage, workers.New(workers.Config{Storage: storage, Logger: log}), s)
	})
	cmd.Flags().DurationVar(&s.Lease, "lease", time.Second, "")
	cmd.Flags().IntVar(&s.Concurrency, "concurrency", 8, "")
	cmd.Flags().IntVar(&s.MaxDequeueCount, "max-dequeue-count", 5, "")
	cmd.Flags().BoolVar(&s.Story, "story", false, "")
	return cmd
}

// startThrowaway starts a Lazuli on free ports with a data folder that stop removes.
func startThrowaway(hierarchical bool) (connectionString string, stop func() error, err error) {
	key, err := auth.ParseKey(auth.DevelopmentKey)
	if err != nil {
		return "", nil, err
	}
	// The development account, whose key is public: this server listens on loopback and ends with the run.
	accounts, err := auth.NewManagedAccounts(accountprops.Blob{Hierarchical: hierarchical},
		auth.Account{Name: auth.DevelopmentAccount, Keys: []auth.Key{key}})
	if err != nil {
		return "", nil, err
	}
	dir, err := os.MkdirTemp("", "lazuli-demo-")
	if err != nil {
		return "", nil, err
	}
	s, err := server.Start(server.Config{Location: dir, Accounts: accounts, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	return s.ConnectionString(), func() error {
		// Not the verb's context, which Ctrl-C has ended: the server still has to be stopped.
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := errors.Join(s.Stop(ctx), os.RemoveAll(dir)); err != nil {
			return fmt.Errorf("stop the server of the demonstration: %w", err)
		}
		return nil
	}, nil
}
