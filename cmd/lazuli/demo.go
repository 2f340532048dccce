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
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lazuli-storage/lazuli/internal/demo"
	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/stack"
)

// newDemoCommand makes `lazuli demo`.
func newDemoCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show a built-in role survive being killed at every step",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newDemoArchiveCommand())
	return cmd
}

func newDemoArchiveCommand() *cobra.Command {
	var (
		c      demo.ArchiveConfig
		faults []string
		quiet  bool
	)
	cmd := &cobra.Command{
		Use:   "archive",
		Short: "Archive real records while the worker is killed at every step in turn",
		Long: `Archive real records while the worker process is killed at every step in turn.

Some thousands of records are loaded into the table Current. Those that are old are to be moved to the table
Archive, each on request of a queue message. For every step of the role, a worker process (lazuli worker) is started
and kills itself with SIGKILL when it comes to that step; a second one is started and finishes. Then everything is
counted: each record must be in exactly one table, the right one, unchanged; the queue empty; nothing poisoned.
Every tenth message is put twice, as a queue may deliver it. In one more round the worker is frozen until its leases
are over, and goes on when another one has finished: it must do no harm then.

It exits with 0 if that is so. Without a connection string it starts its own Lazuli with a data folder that is
thrown away. Tables and queues have names of their own and are deleted at the end.

Steps: ` + strings.Join(demo.Points(), ", "),
		Example: `  lazuli demo archive
  lazuli demo archive --fault archive/after-copy --seed 42
  lazuli demo archive --pairs
  lazuli demo archive --connection-string UseDevelopmentStorage=true`,
		Args: cobra.NoArgs,
	}
	connection := connectionFlag(cmd, "", "an own Lazuli")
	fl := cmd.Flags()
	fl.StringSliceVar(&faults, "fault", []string{"all"}, "steps to be killed at: all, or names")
	fl.BoolVar(&c.Pairs, "pairs", false, "also kill at every pair of steps: the restarted worker too is killed")
	fl.IntVar(&c.Records, "records", 0, "how many records to load (default: all, 2792)")
	fl.Uint64Var(&c.Seed, "seed", 0, "repeats the choices of the run that printed this seed (default: a new one)")
	fl.DurationVar(&c.Lease, "lease", time.Second, "how long a killed worker's messages stay hidden; whole seconds")
	fl.DurationVar(&c.Patience, "patience", time.Minute, "how long a round may take before its messages count as stuck")
	fl.BoolVar(&c.Keep, "keep", false, "leave tables and queue in place")
	fl.BoolVarP(&quiet, "quiet", "q", false, "no progress on standard error")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if len(faults) != 1 || faults[0] != "all" {
			c.Points = faults
		}
		if !cmd.Flags().Changed("seed") {
			c.Seed = rand.Uint64()
		}
		if !quiet {
			c.Progress, c.Live = cmd.ErrOrStderr(), isTerminal(cmd.ErrOrStderr())
		}
		c.ConnectionString = connection()
		return runDemoArchive(cmd.Context(), cmd.OutOrStdout(), c)
	}
	return cmd
}

func runDemoArchive(ctx context.Context, out io.Writer, c demo.ArchiveConfig) (err error) {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	c.Worker = func(w demo.WorkerSettings) *exec.Cmd { return archiveWorker(self, w) }
	if c.ConnectionString == "" {
		s, stop, err := startThrowaway()
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, stop()) }()
		c.ConnectionString = s
	}
	report, err := demo.Archive(ctx, c)
	if report != nil {
		err = errors.Join(err, report.WriteTable(out))
	}
	return err
}

// archiveWorker is the command line of a worker process. What is secret goes through the environment.
func archiveWorker(self string, w demo.WorkerSettings) *exec.Cmd {
	cmd := exec.Command(self, "worker", "--role=archive", "--archive-queue="+w.Queue, "--archive-from="+w.Current, "--archive-to=table:"+w.Archive,
		"--lease="+w.Lease.String(), "--concurrency="+strconv.Itoa(w.Concurrency), "--max-dequeue-count="+strconv.Itoa(w.MaxDequeueCount))
	cmd.Env = append(os.Environ(), connectionEnvVar+"="+w.ConnectionString, fault.EnvVar+"="+w.Fault)
	return cmd
}

// startThrowaway starts a Lazuli on free ports with a data folder that stop removes.
func startThrowaway() (connectionString string, stop func() error, err error) {
	dir, err := os.MkdirTemp("", "lazuli-demo-")
	if err != nil {
		return "", nil, err
	}
	s, err := stack.Start(stack.Config{Location: dir, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	return s.ConnectionString(), func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := errors.Join(s.Stop(ctx), os.RemoveAll(dir)); err != nil {
			return fmt.Errorf("stop the demonstration's own Lazuli: %w", err)
		}
		return nil
	}, nil
}
