package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/console"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/target"
	"github.com/lazuli-storage/lazuli/internal/sdk/jobrow"
	"github.com/lazuli-storage/lazuli/workers"
)

// newJobsCommand makes `lazuli jobs`.
func newJobsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "jobs",
		Short: "List, show, put and cancel jobs: queue messages with an ID and a state",
		Long: `List, show, put and cancel jobs: queue messages with an ID and a state, which a program puts by
EnqueueJob and a Go worker handles, on Lazuli, Azurite or Azure.`,
	}
	cmd.AddCommand(newJobsListCommand(), newJobsShowCommand(), newJobsPutCommand(), newJobsCancelCommand())
	return cmd
}

func newJobsListCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "ls [QUEUE]", Short: "List jobs, by state, the latest first",
		Args:    cobra.MaximumNArgs(1),
		Example: "  lazuli jobs ls\n  lazuli jobs ls orders --state running,retrying"}
	open := target.StorageFlag(cmd)
	names := cmd.Flags().StringSlice("state", nil, "states: "+stateNames())
	console.OfferValues(cmd, "state", strings.Split(stateNames(), ", ")...)
	top := cmd.Flags().Int("top", 100, "maximum number of jobs; 0: no limit")
	begin := console.ListOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		states, err := readStates(*names)
		if err != nil {
			return err
		}
		if *top < 0 {
			return console.Usagef("--top must not be negative, but is %d", *top)
		}
		storage, err := open(cmd.Context())
		if err != nil {
			return err
		}
		queues := args
		if len(queues) == 0 {
			queues, err = storage.JobQueues(cmd.Context())
		}
		out := begin("JOB", "STATE", "SINCE", "ATTEMPT", "KEY", "ERROR").Or("there are no such jobs")
		for _, queue := range queues {
			for j, failed := range storage.Jobs(cmd.Context(), queue, states...) {
				// The error of the list of queues is reported here as well, after the heading of the table.
				if err = errors.Join(err, failed); err != nil {
					return out.End(err)
				}
				if *top > 0 && out.Rows == *top {
					fmt.Fprintf(cmd.ErrOrStderr(), "only the first %d jobs are shown; use --top to show more\n", *top)
					return out.End(nil)
				}
				err = out.Add(j, j.ID, stateText(j), console.ClockText(j.Changed), j.Attempt, console.OneLine(j.UniqueKey),
					console.OneLine(lastError(j)))
			}
		}
		return out.End(err)
	}
	return cmd
}

func stateNames() string {
	var all []string
	for _, s := range workers.JobStates() {
		all = append(all, string(s))
	}
	return strings.Join(all, ", ")
}

func readStates(names []string) (states []workers.JobState, err error) {
	for _, n := range names {
		s := workers.JobState(strings.ToLower(strings.TrimSpace(n)))
		if !slices.Contains(workers.JobStates(), s) {
			return nil, console.Usagef("--state: unknown state %q; the states are %s", n, stateNames())
		}
		states = append(states, s)
	}
	return states, nil
}

// stateText is the state, and when the job is due.
func stateText(j *workers.Job) string {
	if j.RunAt.IsZero() {
		return string(j.State)
	}
	return string(j.State) + " until " + console.ClockText(j.RunAt)
}

func lastError(j *workers.Job) string {
	if n := len(j.Errors); n > 0 {
		return j.Errors[n-1].Text
	}
	return ""
}

func newJobsShowCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "show JOB", Short: "Show a job with its errors, progress and result",
		Args: cobra.MatchAll(cobra.ExactArgs(1), checkJobIDs)}
	open := target.StorageFlag(cmd)
	output := console.ReportOutput(cmd)
	cmd.RunE = open.Run(func(cmd *cobra.Command, args []string, storage *workers.Storage) error {
		j, err := storage.Job(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		return output(j, func(w io.Writer) error { return writeJob(w, j) })
	})
	return cmd
}

func writeJob(w io.Writer, j *workers.Job) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	when := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return console.ClockText(t)
	}
	for _, row := range [][2]string{{"Job", j.ID}, {"State", stateText(j)}, {"Since", when(j.Changed)},
		{"Unique key", j.UniqueKey}, {"Function", j.Function}, {"Attempt", fmt.Sprint(j.Attempt)},
		// Zero times are left out by when, or a job that waits would have started in the year 1.
		{"Created", when(j.Created)}, {"Started", when(j.Started)}, {"Removed", when(j.Expires)},
		{"Progress", string(j.Progress)}, {"Result", string(j.Result)}} {
		if row[1] != "" {
			fmt.Fprintf(tw, "%s\t%s\n", row[0], console.OneLine(row[1]))
		}
	}
	if len(j.Errors) > 0 {
		fmt.Fprint(tw, "\nTIME\tATTEMPT\tERROR\n")
	}
	for _, e := range j.Errors {
		fmt.Fprintf(tw, "%s\t%d\t%s\n", console.ClockText(e.At), e.Attempt, console.OneLine(e.Text))
	}
	return tw.Flush()
}

// checkJobIDs refuses arguments that cannot be IDs of jobs.
func checkJobIDs(_ *cobra.Command, args []string) error {
	for _, id := range args {
		if _, _, ok := jobrow.SplitID(id); !ok {
			return console.Usagef("%q is not the ID of a job, which is QUEUE.LETTERS as lazuli jobs ls shows it", id)
		}
	}
	return nil
}

func newJobsPutCommand() *cobra.Command {
	var (
		unique                 string
		uniqueFor, keep, delay time.Duration
		plain                  bool
	)
	cmd := &cobra.Command{Use: "put QUEUE BODY", Short: "Put a job into a queue, and print its ID",
		Args: cobra.ExactArgs(2),
		Long: `Put a job into a queue, and print its ID. With --unique, nothing is put while another job has the key: the ID
is that job's.`,
		Example: `  lazuli jobs put orders '{"item": "tea"}' --keep 24h
  lazuli jobs put reports '{"day": "today"}' --unique today --unique-for 1h`}
	open := target.StorageFlag(cmd)
	fl := cmd.Flags()
	fl.StringVar(&unique, "unique", "", "put no job while another one with this key waits or runs")
	fl.DurationVar(&uniqueFor, "unique-for", 0, "hold the key of --unique for at least this long")
	fl.DurationVar(&keep, "keep", 0, "keep state and result for this long once the job is done")
	fl.DurationVar(&delay, "delay", 0, "delay before the job runs, up to 168h")
	fl.BoolVar(&plain, "plain", false, "put the body as it is, not in base64")
	output := console.LineOutput(cmd)
	cmd.RunE = open.Run(func(cmd *cobra.Command, args []string, storage *workers.Storage) error {
		// UniqueFor, Keep and After of zero are the defaults of the runtime, so they need no test of their flags.
		options := []workers.EnqueueOption{workers.UniqueFor(uniqueFor), workers.Keep(keep), workers.After(delay)}
		// An empty key is a key: --unique "$day" with an empty variable must be refused by the runtime, not ignored here.
		if cmd.Flags().Changed("unique") {
			options = append(options, workers.Unique(unique))
		}
		if plain {
			options = append(options, workers.EncodedAs(workers.NoEncoding))
		}
		e, err := storage.EnqueueJob(cmd.Context(), args[0], args[1], options...)
		if err != nil {
			return err
		}
		// On standard error: scripts read the ID from standard output, which is right in both cases.
		if e.Duplicate {
			fmt.Fprintln(cmd.ErrOrStderr(), "nothing was put: this job has the key")
		}
		return output(e, "%s", e.ID)
	})
	return cmd
}

func newJobsCancelCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "cancel JOB ...", Short: "Cancel jobs that wait or run",
		Args: cobra.MatchAll(cobra.MinimumNArgs(1), checkJobIDs),
		Long: `Cancel jobs that wait or run. One that waits is cancelled at once. The context of the handler of one that
runs is cancelled by its process within about two seconds; the job is cancelled when the handler returns.`}
	open := target.StorageFlag(cmd)
	cmd.RunE = open.Run(func(cmd *cobra.Command, args []string, storage *workers.Storage) error {
		return cancelJobs(cmd.Context(), cmd.OutOrStdout(), storage, args)
	})
	return cmd
}

func cancelJobs(ctx context.Context, w io.Writer, storage *workers.Storage, ids []string) error {
	var errs []error
	for _, id := range ids {
		state, err := storage.CancelJob(ctx, id)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		fmt.Fprintf(w, "%s is %s\n", id, state)
	}
	return errors.Join(errs...)
}
