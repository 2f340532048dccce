package main

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/console"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/target"
	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/sdk/connstr"
	"github.com/lazuli-storage/lazuli/workers"
)

// newSagaCommand makes `lazuli demo saga`.
func newSagaCommand() *cobra.Command {
	var (
		c      demo.SagaConfig
		faults []string
		quiet  bool
	)
	points := demo.SagaPoints()
	cmd := &cobra.Command{
		Use:   "saga",
		Short: "Place orders over a table, a queue and a blob",
		Long: `Orders are placed as durable workflows, workers/roles/saga: each reserves in a table, charges by a queue and writes a receipt into a blob,
and is then moved to another table. A third of them is refused at the last step, and compensated. In the end each order must have taken
effect completely or not at all.

For every step of the workflow engine, a worker process is started and kills itself with SIGKILL when it reaches that step. Then leases are
broken, messages are delivered twice, and another worker finishes. In one more round a worker is frozen in the middle of a commit, and continues
after another worker has finished: it must not change the result. With --random, workers are also killed at random moments.

The exit code is 0 if all checks pass. Without a connection string, the command starts a Lazuli server with a temporary data folder.

Steps: ` + strings.Join(points, ", "),
		Example: "  lazuli demo saga\n  lazuli demo saga --fault durable/after-commit --seed 42\n  lazuli demo saga " +
			"--pairs --sample-pairs 20\n  lazuli demo saga --random 1000",
		Args: cobra.NoArgs,
	}
	connection := target.OverrideFlag(cmd, "a Lazuli that the verb starts")
	fl := cmd.Flags()
	fl.StringSliceVar(&faults, "fault", []string{"all"}, "steps at which to kill: all, none, or names")
	console.OfferValues(cmd, "fault", append([]string{"all", "none"}, points...)...)
	fl.BoolVar(&c.Pairs, "pairs", false, "also kill at every pair of steps: the restarted worker is killed too")
	fl.IntVar(&c.SamplePairs, "sample-pairs", 0, "number of pairs, chosen by the seed; 0: all")
	fl.IntVar(&c.Orders, "orders", 12, "orders in each round")
	fl.IntVar(&c.Random, "random", 0,
		"number of orders in the round that kills workers at random moments; 0: skip the round")
	fl.Uint64Var(&c.Seed, "seed", 0, "seed of the random choices, to repeat a run (default: random)")
	fl.DurationVar(&c.Patience, "patience", 2*time.Minute, "time limit of a round")
	fl.BoolVar(&c.Keep, "keep", false, "keep the created resources")
	fl.BoolVarP(&quiet, "quiet", "q", false, "no progress on standard error")
	print := demonstrationOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		switch {
		case slices.Equal(faults, []string{"none"}):
			c.Points = []string{}
		case !slices.Equal(faults, []string{"all"}):
			c.Points = faults
		}
		for _, f := range c.Points {
			if !slices.Contains(points, f) {
				return console.Usagef("--fault: unknown step %q; the steps are %s", f, strings.Join(points, ", "))
			}
		}
		if c.Orders < 6 || c.Random < 0 || c.SamplePairs < 0 {
			return console.Usagef("--orders must be at least 6; --random and --sample-pairs must not be negative")
		}
		if !cmd.Flags().Changed("seed") {
			c.Seed = rand.Uint64()
		}
		if !quiet {
			c.Progress = cmd.ErrOrStderr()
			if m := console.NewMeter(cmd, "", nil); m != nil {
				defer m.End()
				c.Progress, c.Show = console.Above{Writer: c.Progress, End: m.End}, m.Say
			}
		}
		self, err := os.Executable()
		if err != nil {
			return err
		}
		c.Worker = func(s demo.SagaSettings) *exec.Cmd { return sagaWorker(self, s) }
		if c.ConnectionString = connection(); c.ConnectionString == "" {
			text, stop, err := startThrowaway(false)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, stop()) }()
			c.ConnectionString = text
		}
		report, err := demo.Saga(cmd.Context(), c)
		if report != nil {
			err = errors.Join(err, print(report, err))
		}
		return err
	}
	return cmd
}

// sagaWorker is the command line of a worker process. Secrets are passed in the environment.
func sagaWorker(self string, s demo.SagaSettings) *exec.Cmd {
	cmd := exec.Command(self, "demo", "saga-worker", "--hub="+s.Hub, "--orders="+s.Orders, "--archive="+s.Archive,
		"--payments="+s.Payments,
		"--receipts="+s.Receipts, "--visibility="+s.Visibility.String())
	cmd.Env = append(os.Environ(), connstr.Variable+"="+s.ConnectionString, fault.EnvVar+"="+s.Fault)
	return cmd
}

// newSagaWorkerCommand makes the worker of the demonstration of sagas.
func newSagaWorkerCommand() *cobra.Command {
	var s demo.SagaSettings
	flags := map[string]*string{"hub": &s.Hub, "orders": &s.Orders, "archive": &s.Archive, "payments": &s.Payments,
		"receipts": &s.Receipts}
	cmd := newDemoWorkerCommand("saga-worker", flags,
		func(ctx context.Context, storage *workers.Storage, log *slog.Logger) error {
			return demo.RunSagaWorker(ctx, storage, log, s)
		})
	cmd.Flags().DurationVar(&s.Visibility, "visibility", 2*time.Second, "")
	return cmd
}
