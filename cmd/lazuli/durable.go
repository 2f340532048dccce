package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/console"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/target"
	taskhub "github.com/lazuli-storage/lazuli/internal/durable/hub"
	"github.com/lazuli-storage/lazuli/internal/durable/record"
	"github.com/lazuli-storage/lazuli/workers"
)

// newDurableCommand makes `lazuli durable`, which serves, shows and controls durable workflows.
func newDurableCommand(m *Main) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "durable",
		Short: "Serve, list, show and control durable workflows",
		Long: `Serve, list, show and control durable workflows, whose task hubs are kept on Lazuli, Azurite or Azure.

The verbs read and write the storage account directly, so no workflow server has to run. An event or a request for an instance takes
effect when a process that runs the hub receives it.`,
	}
	cmd.AddCommand(newDurableServeCommand(m), newDurableHubsCommand(), newDurableListCommand(), newDurableShowCommand(),
		newDurableStartCommand(),
		newDurableRaiseCommand(),
		newDurableSendCommand("terminate", "End an instance and its sub-orchestrations; activities that run are not stopped",
			func(c *taskhub.Client, ctx context.Context, id, reason string) error {
				return c.Terminate(ctx, id, reason, true)
			}),
		newDurableSendCommand("suspend", "Suspend an instance", (*taskhub.Client).Suspend),
		newDurableSendCommand("resume", "Resume a suspended instance", (*taskhub.Client).Resume),
		newDurableSendCommand("rewind", "Retry the failed steps of a failed instance", (*taskhub.Client).Rewind),
		newDurablePurgeCommand())
	return cmd
}

// queryFlags adds the flags that choose instances.
func queryFlags(cmd *cobra.Command) func(time.Time) taskhub.Query {
	statuses := cmd.Flags().StringSlice("status", nil,
		"statuses: Pending, Running, Completed, Failed, Terminated, Suspended")
	prefix := cmd.Flags().String("prefix", "", "prefix of the instance ID")
	older := cmd.Flags().Duration("older-than", 0, "minimum time since creation")
	newer := cmd.Flags().Duration("newer-than", 0, "maximum time since creation")
	return func(now time.Time) taskhub.Query {
		q := taskhub.Query{Status: *statuses, Prefix: *prefix, Top: 1000}
		if *older > 0 {
			q.To = now.Add(-*older)
		}
		if *newer > 0 {
			q.From = now.Add(-*newer)
		}
		return q
	}
}

func newDurableListCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "ls", Short: "List instances", Args: cobra.NoArgs,
		Example: "  lazuli durable ls --status Failed --newer-than 24h"}
	open, query := target.HubReadFlag(cmd), queryFlags(cmd)
	begin := console.ListOutput(cmd)
	top := cmd.Flags().Int("top", 100, "maximum number of instances; 0: no limit")
	cmd.RunE = open.Run(func(cmd *cobra.Command, _ []string, c *taskhub.Reader) error {
		out := begin("INSTANCE", "WORKFLOW", "STATUS", "CREATED", "UPDATED").Or("there are no instances")
		now := time.Now()
		q := query(now)
		// The commonest mistake of a beginner: a worker without the workflow, or with another name of the hub.
		waiting := 0
		defer func() {
			if waiting > 0 {
				fmt.Fprintf(cmd.ErrOrStderr(), "%d instances have been pending for %v and more: no connected worker has taken "+
					"them; connect one that has the workflow, by its name and version\n", waiting, pendingLong)
			}
		}()
		// Inputs and results may be large, and a table does not show them.
		for q.Payloads = out.JSON != nil; ; {
			page, err := c.Query(cmd.Context(), q)
			if err != nil {
				return out.End(err)
			}
			for _, i := range page.Instances {
				// Looked at before the next row, so that the note comes only if there is one more.
				if *top > 0 && out.Rows == *top {
					fmt.Fprintf(cmd.ErrOrStderr(), "only the first %d instances are shown; use --top to show more\n", *top)
					return out.End(nil)
				}
				if isWaiting(i, now) {
					waiting++
				}
				if err := out.Add(console.InStyle(i), console.OneLine(i.ID), console.OneLine(i.Name), i.Status,
					console.ClockText(i.Created),
					console.ClockText(i.LastUpdated)); err != nil {
					return out.End(err)
				}
			}
			if q.Continuation = page.Continuation; q.Continuation == "" {
				return out.End(nil)
			}
		}
	})
	return cmd
}

// pendingLong is the time after which durable ls says that an instance is pending.
const pendingLong = 30 * time.Second

// isWaiting reports whether an instance waits for a worker for long, and not for its time.
func isWaiting(i *record.Instance, now time.Time) bool {
	due := i.Created
	if i.Scheduled != nil {
		due = *i.Scheduled
	}
	return i.Status == "Pending" && now.Sub(due) >= pendingLong
}

func newDurableShowCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "show INSTANCE", Short: "Show an instance and its history", Args: cobra.ExactArgs(1)}
	open := target.HubReadFlag(cmd)
	output := console.ReportOutput(cmd)
	full := cmd.Flags().Bool("full", false, "print complete payloads")
	cmd.RunE = open.Run(func(cmd *cobra.Command, args []string, c *taskhub.Reader) error {
		i, err := c.Get(cmd.Context(), args[0])
		if err != nil {
			return fmt.Errorf("instance %q: %w", args[0], err)
		}
		events, err := c.History(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		steps := record.Describe(events)
		return output(console.InStyle(map[string]any{"instance": i, "history": steps}), func(w io.Writer) error {
			return writeInstance(w, i, steps, *full)
		})
	})
	return cmd
}

func writeInstance(out io.Writer, i *record.Instance, steps []record.Step, full bool) error {
	text := console.OneLine
	if full {
		text = func(s string) string { return s }
	}
	tw := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, row := range [][2]string{{"Instance", i.ID}, {"Workflow", i.Name}, {"Status", i.Status},
		{"Created", console.ClockText(i.Created)}, {"Updated", console.ClockText(i.LastUpdated)},
		{"Parent", i.Parent}, {"Input", i.Input}, {"Output", i.Output}, {"Custom status", i.CustomStatus},
		// A failure without a type begins with the separator, which is cut off.
		{"Failure", strings.TrimPrefix(i.FailureType+": "+i.FailureMessage, ": ")}} {
		// Empty rows are left out: most instances have neither parent nor custom status nor failure.
		if row[1] != "" {
			fmt.Fprintf(tw, "%s\t%s\n", row[0], text(row[1]))
		}
	}
	fmt.Fprintln(tw)
	fmt.Fprintln(tw, "TIME\tTASK\tEVENT\tDETAILS")
	for _, s := range steps {
		task := ""
		// Events of the instance itself have no task, and -1.
		if s.Task >= 0 {
			task = fmt.Sprint("#", s.Task)
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\n", s.Time.UTC().Format("15:04:05.000"), task, s.Event,
			text(strings.TrimSpace(s.Name+" "+s.Details)))
	}
	return tw.Flush()
}

func newDurableStartCommand() *cobra.Command {
	var o taskhub.StartOptions
	cmd := &cobra.Command{Use: "start WORKFLOW [INPUT]", Short: "Start an instance of a workflow; the input is JSON",
		Args:    cobra.RangeArgs(1, 2),
		Example: `  lazuli durable start order '{"item": "tea"}' --id order-7`}
	open := target.HubFlag(cmd)
	cmd.Flags().StringVar(&o.InstanceID, "id", "", "instance ID (default: a random one)")
	after := cmd.Flags().Duration("after", 0, "delay before the instance starts")
	output := console.LineOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 2 {
			// Workflows would fail on such input only when they read it, long after this command said it was started.
			if !json.Valid([]byte(args[1])) {
				return console.Usagef("the input is not JSON")
			}
			o.Input = args[1]
		}
		if *after > 0 {
			o.At = time.Now().Add(*after)
		}
		c, err := open(cmd.Context())
		if err != nil {
			return err
		}
		id, err := c.Start(cmd.Context(), args[0], o)
		if err != nil {
			return err
		}
		return output(struct {
			ID string `json:"id"`
		}{id}, "%s", id)
	}
	return cmd
}

func newDurableRaiseCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "raise INSTANCE EVENT [DATA]", Short: "Send an event to an instance; the data is JSON",
		Args:    cobra.RangeArgs(2, 3),
		Example: `  lazuli durable raise order-7 approved '{"by": "Ada"}'`}
	open := target.HubFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		data := strings.Join(args[2:], "")
		if data != "" && !json.Valid([]byte(data)) {
			return console.Usagef("the data is not JSON")
		}
		c, err := open(cmd.Context())
		if err != nil {
			return err
		}
		if err := c.RaiseEvent(cmd.Context(), args[0], args[1], data); err != nil {
			return fmt.Errorf("instance %q: %w", args[0], err)
		}
		return nil
	}
	return cmd
}

func newDurableSendCommand(name, short string,
	send func(c *taskhub.Client, ctx context.Context, id, reason string) error) *cobra.Command {
	cmd := &cobra.Command{Use: name + " INSTANCE ...", Short: short, Args: cobra.MinimumNArgs(1)}
	open := target.HubFlag(cmd)
	reason := cmd.Flags().String("reason", "", "reason to record in the history")
	cmd.RunE = open.Run(func(cmd *cobra.Command, args []string, c *taskhub.Client) error {
		var errs []error
		for _, id := range args {
			if err := send(c, cmd.Context(), id, *reason); err != nil {
				errs = append(errs, fmt.Errorf("instance %q: %w", id, err))
			}
		}
		return errors.Join(errs...)
	})
	return cmd
}

func newDurablePurgeCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "purge [INSTANCE ...]", Short: "Delete all data of instances that have ended",
		Long: `Delete all data of instances that have ended: the named ones with their sub-orchestrations, or all that match
--status, --prefix, --older-than and --newer-than.`,
		Example: "  lazuli durable purge order-7\n  lazuli durable purge --status Completed --older-than 720h --yes"}
	open, query, confirm, output := target.HubFlag(cmd), queryFlags(cmd), console.Confirmation(cmd),
		console.LineOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		chosen := false
		for _, f := range []string{"status", "prefix", "older-than", "newer-than"} {
			chosen = chosen || cmd.Flags().Changed(f)
		}
		// Neither would be all instances of the hub, and both leave open which of the two counts.
		if chosen == (len(args) > 0) {
			return console.Usagef("give instance IDs or select instances by --status, --prefix, --older-than or " +
				"--newer-than")
		}
		question := "Delete all data of the instances that match?"
		if !chosen {
			question = fmt.Sprintf("Delete all data of %s?", strings.Join(args, ", "))
		}
		if err := confirm(question); err != nil {
			return err
		}
		c, err := open(cmd.Context())
		if err != nil {
			return err
		}
		n := 0
		var errs []error
		if chosen {
			n, err = c.PurgeAll(cmd.Context(), query(time.Now()))
			errs = append(errs, err)
		}
		for _, id := range args {
			purged, err := c.PurgeTree(cmd.Context(), id, true)
			n += purged
			if err != nil {
				// The others are still purged: the command is often given a list from another one.
				errs = append(errs, fmt.Errorf("instance %q: %w", id, err))
			}
		}
		errs = append(errs, output(struct {
			Purged int `json:"purged"`
		}{n}, "purged %d", n))
		return errors.Join(errs...)
	}
	return cmd
}

// newDurableHubsCommand makes `lazuli durable hubs`.
func newDurableHubsCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "hubs", Short: "List the task hubs of the account", Args: cobra.NoArgs,
		Long: "List the task hubs of the account with their engines. Their names are those for --hub. Hubs of another engine " +
			"(DTFx, Durable Functions) can be read with ls and show; the other verbs refuse them.", Example: "  lazuli durable hubs"}
	open, begin := target.StorageFlag(cmd), console.ListOutput(cmd)
	cmd.RunE = open.Run(func(cmd *cobra.Command, _ []string, storage *workers.Storage) error {
		hubs, err := target.HubsOf(cmd.Context(), storage)
		out := begin("HUB", "ENGINE").Or("the account has no task hubs; a program that runs workflows makes one")
		for _, hub := range hubs {
			if err == nil {
				err = out.Add(hub, hub.Name, hub.Engine)
			}
		}
		return out.End(err)
	})
	return cmd
}
