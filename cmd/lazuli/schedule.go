package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/console"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/target"
	"github.com/lazuli-storage/lazuli/internal/sdk/schedulerow"
	"github.com/lazuli-storage/lazuli/workers"
)

// newScheduleCommand makes `lazuli schedule`, which changes the schedules of an account.
func newScheduleCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "schedule",
		Short: "Create, list, pause, resume and remove schedules that put queue messages",
		Long: `Create, list, pause, resume and remove schedules that put queue messages, on Lazuli, Azurite or Azure.

A process with the role puts the messages: "lazuli serve --roles schedules", "lazuli worker --role schedules", or a program with
workers.App.Schedules. It sees a change within five seconds.`,
	}
	cmd.AddCommand(newScheduleCreateCommand(), newScheduleListCommand(),
		newScheduleChangeCommand("pause", "Pause schedules: they put no messages until they are resumed", "paused",
			(*workers.Storage).PauseSchedule),
		newScheduleChangeCommand("resume", "Resume paused schedules; occurrences during the pause are skipped",
			"resumed",
			(*workers.Storage).ResumeSchedule),
		newScheduleChangeCommand("rm", "Remove schedules; messages that they have put stay", "removed",
			(*workers.Storage).RemoveSchedule))
	return cmd
}

// scheduleStorage adds --connection-string to cmd and returns how to open the account.
func scheduleStorage(cmd *cobra.Command) target.Opener[workers.Storage] {
	return target.ServiceFlag(cmd, "table", func(s *workers.Storage) *workers.Storage {
		if s.Tables == nil {
			return nil
		}
		return s
	})
}

func newScheduleCreateCommand() *cobra.Command {
	var s workers.Schedule
	var catchUp, body string
	var plain, replace bool
	cmd := &cobra.Command{
		Use: "create NAME EXPRESSION", Short: "Create a schedule; the body - is read from standard input",
		Args: cobra.ExactArgs(2),
		Long: `Create a schedule. EXPRESSION is "{second} {minute} {hour} {day} {month} {day of week}" as in the timers of Azure Functions
(NCRONTAB), or an interval hh:mm:ss.

If the body is a JSON object, each message also has the members "schedule" and "scheduledTime".`,
		Example: `  lazuli schedule create acme-report '0 0 6 * * mon-fri' --queue reports --body '{"customer": "acme"}' --time-zone Europe/Berlin
  lazuli schedule create heartbeat 00:00:30 --queue beats --catch-up skip`,
	}
	open := scheduleStorage(cmd)
	fl := cmd.Flags()
	fl.StringVar(&s.Queue, "queue", "", "queue of the messages; it is created with the first one")
	fl.StringVar(&body, "body", "{}", "body of the messages")
	fl.StringVar(&s.TimeZone, "time-zone", "", "time zone of the expression, such as Europe/Berlin (default: UTC)")
	fl.StringVar(&catchUp, "catch-up", "once",
		"how to handle occurrences that were missed while no process with the role was running: once, skip, all")
	fl.IntVar(&s.MaxCatchUp, "max-catch-up", 100, "largest number of messages with --catch-up all, 1 to 1000")
	fl.BoolVar(&s.Paused, "paused", false, "create the schedule in the paused state")
	fl.BoolVar(&plain, "plain", false,
		"put the text unencoded (default: base64, as Azure Functions and the workers expect)")
	fl.BoolVar(&replace, "replace", false,
		"change the schedule if it exists; it stays paused or not, and keeps its next time unless the expression changes")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if s.Queue == "" {
			return console.Usagef("--queue is missing: the queue that gets the messages")
		}
		s.Name, s.Expression, s.CatchUp, s.Body = args[0], args[1], workers.CatchUp(catchUp), body
		if body == "-" {
			// A schedule holds 45 KiB at most; one byte more is enough to be refused.
			text, err := io.ReadAll(io.LimitReader(cmd.InOrStdin(), 45<<10+1))
			if err != nil {
				return err
			}
			s.Body = text
		}
		if plain {
			s.Encoding = workers.NoEncoding
		}
		storage, err := open(cmd.Context())
		if err != nil {
			return err
		}
		create := storage.CreateSchedule
		if replace {
			create = storage.UpsertSchedule
		}
		if err := create(cmd.Context(), s); err != nil {
			if errors.Is(err, workers.ErrScheduleExists) {
				return fmt.Errorf("%w; --replace changes it", err)
			}
			if errors.As(err, new(*schedulerow.InvalidError)) {
				return console.Usage(err)
			}
			return err
		}
		got, err := storage.GetSchedule(cmd.Context(), s.Name)
		if err != nil {
			return err
		}
		if got.Paused {
			fmt.Fprintf(cmd.OutOrStdout(), "created %s, paused\n", got.Name)
			return nil
		}
		fmt.Fprintf(cmd.OutOrStdout(), "created %s; the next message is put at %s\n", got.Name, got.Next.Format(time.RFC3339))
		return nil
	}
	return cmd
}

// scheduleLine is a schedule as JSON.
type scheduleLine struct {
	Name       string    `json:"name"`
	Expression string    `json:"expression"`
	TimeZone   string    `json:"timeZone,omitempty"`
	Queue      string    `json:"queue"`
	State      string    `json:"state"`
	Next       time.Time `json:"next,omitzero"`
	Last       time.Time `json:"last,omitzero"`
	Runs       int64     `json:"runs"`
	CatchUp    string    `json:"catchUp"`
	Body       string    `json:"body"`
}

func newScheduleListCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "ls", Short: "List schedules with their next and last messages", Args: cobra.NoArgs}
	open, output := scheduleStorage(cmd), console.ListOutput(cmd)
	cmd.RunE = open.Run(func(cmd *cobra.Command, _ []string, storage *workers.Storage) error {
		list, err := storage.Schedules(cmd.Context())
		if err != nil {
			return err
		}
		out := output("NAME", "EXPRESSION", "TIME ZONE", "QUEUE", "STATE", "NEXT", "LAST", "RUNS", "CATCH UP", "BODY").
			Or("the account has no schedules; lazuli schedule create makes one")
		for _, s := range list {
			body, _ := s.Body.([]byte)
			line := scheduleLine{Name: s.Name, Expression: s.Expression, TimeZone: s.TimeZone, Queue: s.Queue,
				State: "active", Next: s.Next, Last: s.Last, Runs: s.Runs, CatchUp: string(s.CatchUp),
				// A body may be any bytes; JSON must be valid text.
				Body: strings.ToValidUTF8(string(body), "\uFFFD")}
			if s.Paused {
				line.State = "paused"
			}
			zone := s.TimeZone
			if zone == "" {
				zone = "UTC"
			}
			short := console.OneLine(line.Body)
			// Cut by characters: bytes could cut one in half. The JSON line has the whole body.
			if runes := []rune(short); len(runes) > 60 {
				short = string(runes[:60]) + "..."
			}
			err = errors.Join(err, out.Add(line, line.Name, line.Expression, zone, line.Queue, line.State,
				console.ClockText(s.Next), console.ClockText(s.Last), line.Runs, line.CatchUp, short))
		}
		return out.End(err)
	})
	return cmd
}

// newScheduleChangeCommand makes a verb that changes schedules by name. It goes on after a name that does not exist.
func newScheduleChangeCommand(verb, short, done string,
	change func(*workers.Storage, context.Context, string) error) *cobra.Command {
	cmd := &cobra.Command{Use: verb + " NAME ...", Short: short, Args: cobra.MinimumNArgs(1)}
	open := scheduleStorage(cmd)
	cmd.RunE = open.Run(func(cmd *cobra.Command, args []string, storage *workers.Storage) error {
		var errs []error
		for _, name := range args {
			if err := change(storage, cmd.Context(), name); err != nil {
				errs = append(errs, err)
				continue
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s %s\n", done, name)
		}
		return errors.Join(errs...)
	})
	return cmd
}
