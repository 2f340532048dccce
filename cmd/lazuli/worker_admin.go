package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/console"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/target"
	"github.com/lazuli-storage/lazuli/workers/adminhttp"
)

// newWorkersCommand makes `lazuli workers`, which asks a running process what its workers do.
func newWorkersCommand(m *Main) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "workers",
		Short: "Show, pause and resume the functions of a running process",
		Long: `Show the functions of a running process, with running calls and last errors. The process is a server with roles, a
"lazuli worker" or "lazuli func start" with --admin ADDRESS, or a program that serves adminhttp.NewHandler of the
package workers/adminhttp. --admin-host and --admin-port are its address.

A paused function finishes its running calls and starts no new ones until it is resumed or its process is restarted. Other
instances are not affected.

"lazuli workers ls" lists all processes with workers that use an account, on Lazuli, Azurite or Azure, and "pause" and
"resume" with --app change a function in all processes of an app there, also in those that start later.`,
		Example: `  lazuli workers
  lazuli workers --admin-port 10013 pause archive
  lazuli workers ls
  lazuli workers pause --app shop-1c2d3e4f ship`,
		Args: cobra.NoArgs,
	}
	begin := console.ListOutput(cmd)
	ask := target.AdminFlags(m.Environ, cmd, "/workers")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		report, err := target.AskAdmin[adminhttp.Report](cmd, ask, "", "a report of workers")
		// The process was reached and has no such page: the hint is about the process, and not about the address.
		if errors.Is(err, target.ErrNotServed) {
			return fmt.Errorf("this process runs no workers: start lazuli with --roles, or ask another process with "+
				"--admin-port (%w)", err)
		}
		return writeReport(begin, report, err, time.Now())
	}
	cmd.AddCommand(newWorkersShow(ask), newWorkersList())
	for _, verb := range []struct{ name, short string }{{"pause", "Stop new calls of a function"},
		{"resume", "Resume a paused function"}} {
		change := &cobra.Command{Use: verb.name + " FUNCTION", Short: verb.short, Args: cobra.ExactArgs(1),
			Long: verb.short + `.

With --app, in all processes of the app that use the account, until it is changed again; the processes read it within
some seconds, and "lazuli workers ls" shows which of them have. What belongs to workflows cannot be paused: "lazuli
durable suspend" suspends an instance.`}
		cmd.AddCommand(change)
		app := change.Flags().String("app", "", "app whose processes change the function, as lazuli workers ls lists it")
		open := tablesFlag(change)
		change.RunE = func(cmd *cobra.Command, args []string) error {
			if *app != "" {
				return changeApp(cmd, open, *app, args[0], verb.name)
			}
			if cmd.Flags().Changed("connection-string") {
				return console.Usagef("--connection-string needs --app, the app whose processes change the function")
			}
			_, err := ask(cmd, http.MethodPost, "/"+url.PathEscape(args[0])+"/"+verb.name, nil)
			if errors.Is(err, target.ErrNotServed) {
				return noSuchFunction(args[0], err)
			}
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%sd %s\n", verb.name, args[0])
			return nil
		}
	}
	return cmd
}

// newWorkersShow makes `lazuli workers show`.
func newWorkersShow(ask target.AdminCaller) *cobra.Command {
	cmd := &cobra.Command{Use: "show FUNCTION", Short: "List the last calls of a function that have ended",
		Args: cobra.ExactArgs(1),
		Long: `List the last 20 calls of a function that have ended, the newest first, and behind them those of the
last 20 that failed which are older.`,
		Example: "  lazuli workers show archive"}
	begin := console.ListOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		report, err := target.AskAdmin[adminhttp.Report](cmd, ask, "/"+url.PathEscape(args[0]), "a report of workers")
		if errors.Is(err, target.ErrNotServed) {
			return noSuchFunction(args[0], err)
		}
		out := begin("BEGAN", "OUTCOME", "SECONDS", "ATTEMPT", "MESSAGE", "ERROR").
			Or("no call of %s has ended since the process started", args[0])
		for _, f := range report.Functions {
			for _, c := range f.Calls {
				err = errors.Join(err, out.Add(c, console.ClockText(c.Began), c.Outcome, fmt.Sprintf("%.3f", c.Seconds), c.Attempt,
					c.MessageID, console.OneLine(c.Error)))
			}
		}
		return out.End(err)
	}
	return cmd
}

func noSuchFunction(name string, err error) error {
	return fmt.Errorf("this process has no function %s; lazuli workers lists those it runs (%w)", name, err)
}

// writeReport writes the functions of a report, and below a table the calls under way and last errors.
func writeReport(begin func(...string) *console.List, r adminhttp.Report, err error, now time.Time) error {
	out := begin("FUNCTION", "TRIGGER", "STATE", "IN FLIGHT", "PER SECOND", "SUCCEEDED", "FAILED", "POISONED",
		"PUT BACK", "LEASES LOST", "STUCK").Or("the process runs no functions")
	for _, f := range r.Functions {
		state := "runs"
		if f.Paused {
			state = "paused"
		}
		err = errors.Join(err, out.Add(f, f.Name, f.Trigger, state, f.InFlight, fmt.Sprintf("%.1f", f.PerSecond), f.Succeeded,
			f.Failed, f.Poisoned, f.PutBack, f.LeaseLost, f.Stuck))
	}
	for _, f := range r.Functions {
		for _, c := range f.Running {
			out.Below("%s: invocation %s, attempt %d, message %s, for %v", f.Name, c.InvocationID, c.Attempt, c.MessageID,
				now.Sub(c.Since).Round(time.Millisecond))
		}
	}
	for _, f := range r.Functions {
		if f.LastErrorAt != nil {
			out.Below("%s: last error %v ago: %s", f.Name, now.Sub(*f.LastErrorAt).Round(time.Second),
				console.OneLine(f.LastError))
		}
	}
	return out.End(err)
}
