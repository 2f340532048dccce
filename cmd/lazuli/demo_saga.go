package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/console"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/lesson"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/orders"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/rig"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/target"
	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/sdk/connstr"
	"github.com/lazuli-storage/lazuli/workers"
)

// newSagaCommand makes `lazuli demo saga`.
func newSagaCommand() *cobra.Command {
	var c orders.Config
	var common rig.Config
	points := orders.Points()
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
	fl, complete := cmd.Flags(), runFlags(cmd, points, &common)
	class := classroomFlags(cmd, &common, demo.MistakesOf("saga")).storyFlags()
	fl.IntVar(&c.Orders, "orders", 12, "orders in each round")
	fl.IntVar(&c.Random, "random", 0,
		"number of orders in the round that kills workers at random moments; 0: skip the round")
	fl.DurationVar(&c.Patience, "patience", 2*time.Minute, "time limit of a round")
	print := demonstrationOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		// A kill waits for the first to the sixth hit of a step; fewer orders might not come to the sixth.
		if c.Orders < 6 || c.Random < 0 || common.SamplePairs < 0 {
			return console.Usagef("--orders must be at least 6; --random and --sample-pairs must not be negative")
		}
		// All checks come before the first process is started: a wrong flag must not leave a server behind.
		if err := class.check(false); err != nil {
			return err
		}
		switch {
		case common.Story > 0 && c.Random > 0:
			return console.Usagef("--story follows one order through one kill: it cannot be used with --random")
		case common.Story > c.Orders:
			return console.Usagef("--story %d: a round has %d orders; --orders says how many", common.Story, c.Orders)
		}
		end, err := complete(class.steps(points))
		if err != nil {
			return err
		}
		defer end()
		self, err := os.Executable()
		if err != nil {
			return err
		}
		// The mistakes use the common worker; the pattern has its own, with the settings of workflows.
		common.Worker = func(w rig.WorkerSettings) *exec.Cmd { return demonstration{}.command(self, w) }
		common.ConnectionString = connection()
		stop, err := class.account(cmd.Context(), &common.ConnectionString, false)
		if err != nil {
			return err
		}
		report, err := class.run(cmd.Context(), common, points,
			func(ctx context.Context, common rig.Config) (lesson.PatternReport, error) {
				if common.Naive() {
					return orders.RunNaive(ctx, common)
				}
				// A copy: with --naive this function is called several times, with other points each.
				c := c
				c.Points, c.Pairs, c.SamplePairs, c.Seed = common.Points, common.Pairs, common.SamplePairs, common.Seed
				c.Keep, c.Progress, c.Show = common.Keep, common.Progress, common.Show
				c.Kept, c.Step, c.Story = common.Kept, common.Step, common.Story
				c.ConnectionString = common.ConnectionString
				c.Worker = func(s orders.Settings) *exec.Cmd { return sagaWorker(self, s) }
				return orders.Run(ctx, c)
			})
		// A report of a run that failed is printed, too: its rows say which round it was.
		if report != nil {
			err = errors.Join(err, print(report, err), class.writePage(report))
		}
		class.showKept(cmd.Context(), err)
		// Last: with --keep, showKept waits for Ctrl+C, and the server must answer until then.
		return errors.Join(err, stop())
	}
	return cmd
}

// sagaWorker is the command line of a worker process. Secrets are passed in the environment.
func sagaWorker(self string, s orders.Settings) *exec.Cmd {
	cmd := exec.Command(self, "demo", "saga-worker", "--hub="+s.Hub, "--orders="+s.Orders, "--archive="+s.Archive,
		"--payments="+s.Payments,
		"--receipts="+s.Receipts, "--visibility="+s.Visibility.String())
	cmd.Env = append(os.Environ(), connstr.Variable+"="+s.ConnectionString, fault.EnvVar+"="+s.Fault)
	return cmd
}

// newSagaWorkerCommand makes the worker of the demonstration of sagas.
func newSagaWorkerCommand() *cobra.Command {
	var s orders.Settings
	flags := map[string]*string{"hub": &s.Hub, "orders": &s.Orders, "archive": &s.Archive, "payments": &s.Payments,
		"receipts": &s.Receipts}
	cmd := newDemoWorkerCommand("saga-worker", flags,
		func(ctx context.Context, storage *workers.Storage, log *slog.Logger) error {
			return orders.RunWorker(ctx, storage, log, s)
		})
	cmd.Flags().DurationVar(&s.Visibility, "visibility", 2*time.Second, "")
	return cmd
}
