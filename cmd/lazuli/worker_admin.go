package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"text/tabwriter"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"

	"github.com/lazuli-storage/lazuli/server/admin"
	"github.com/lazuli-storage/lazuli/server/config"
	"github.com/lazuli-storage/lazuli/workers"
)

// serveWorkerAdmin opens the admin listener of a worker process and returns what closes it. An empty address opens
// none. search answers at /search and functions below /functions; nil leaves the path out. With LAZULI_ADMIN_TOKEN in
// the environment, callers have to bring that token.
func serveWorkerAdmin(address string, app *workers.App, search, functions http.Handler, log *slog.Logger) (stop func(),
	err error) {
	if address == "" {
		return func() {}, nil
	}
	token := os.Getenv("LAZULI_ADMIN_TOKEN")
	if err := config.CheckOpen("--admin", address, token, "set LAZULI_ADMIN_TOKEN"); err != nil {
		return nil, usageError{err}
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("the admin listener: %w", err)
	}
	metrics := prometheus.NewRegistry()
	metrics.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		app.Collector())
	server := admin.Start(l, admin.Options{Token: token, Metrics: metrics, Workers: workers.NewHandler(app),
		Search: search, Functions: functions, Log: log})
	log.Info("admin listener", "url", "http://"+reachable(l.Addr().String()))
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = server.Stop(ctx) // An interrupted scrape is not an error.
	}, nil
}

// newWorkersCommand makes `lazuli workers`, which asks a running process what its workers do.
func newWorkersCommand(m *Main) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "workers",
		Short: "Show, pause and resume the functions of a running process",
		Long: `Show the functions of a running process, with running calls and last errors. The process is a server with roles, a
"lazuli worker" or "lazuli func start" with --admin ADDRESS, or a program that serves workers.NewHandler. --admin-host and
--admin-port are its address.

A paused function finishes its running calls and starts no new ones until it is resumed or its process is restarted. Other
instances are not affected.`,
		Example: `  lazuli workers
  lazuli workers --admin-port 10013 pause archive`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the report as JSON")
	ask := newAdminCaller(m, cmd, "/workers")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		body, err := ask(cmd, http.MethodGet, "", nil)
		if errors.Is(err, errNotServed) {
			return fmt.Errorf("this process runs no workers: start lazuli with --roles, or ask another process with "+
				"--admin-port (%w)", err)
		}
		if err != nil {
			return err
		}
		var report workers.Report
		if err := json.Unmarshal(body, &report); err != nil {
			return fmt.Errorf("the answer is not a report of workers: %w", err)
		}
		if asJSON {
			return writeLines(cmd.OutOrStdout(), body)
		}
		return writeReport(cmd.OutOrStdout(), report, time.Now())
	}
	cmd.AddCommand(newWorkersShow(ask))
	for _, verb := range []struct{ name, short string }{{"pause", "Stop new calls of a function"},
		{"resume", "Resume a paused function"}} {
		cmd.AddCommand(&cobra.Command{Use: verb.name + " function", Short: verb.short, Args: cobra.ExactArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error {
				_, err := ask(cmd, http.MethodPost, "/"+url.PathEscape(args[0])+"/"+verb.name, nil)
				if errors.Is(err, errNotServed) {
					return noSuchFunction(args[0], err)
				}
				if err != nil {
					return err
				}
				fmt.Fprintf(cmd.OutOrStdout(), "%sd %s\n", verb.name, args[0])
				return nil
			}})
	}
	return cmd
}

// newWorkersShow makes `lazuli workers show`.
func newWorkersShow(ask adminCaller) *cobra.Command {
	cmd := &cobra.Command{Use: "show function", Short: "List the last calls of a function that have ended",
		Args: cobra.ExactArgs(1),
		Long: `List the last 20 calls of a function that have ended, the newest first, and behind them those of the
last 20 that failed which are older.`,
		Example: "  lazuli workers show archive"}
	begin := listOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		body, err := ask(cmd, http.MethodGet, "/"+url.PathEscape(args[0]), nil)
		if errors.Is(err, errNotServed) {
			return noSuchFunction(args[0], err)
		}
		if err != nil {
			return err
		}
		var report workers.Report
		if err := json.Unmarshal(body, &report); err != nil {
			return fmt.Errorf("the answer is not a report of workers: %w", err)
		}
		out := begin("BEGAN", "OUTCOME", "SECONDS", "ATTEMPT", "MESSAGE", "ERROR").
			or("no call of %s has ended since the process started", args[0])
		for _, f := range report.Functions {
			for _, c := range f.Calls {
				if err := out.add(c, c.Began.Local().Format(time.DateTime), c.Outcome, fmt.Sprintf("%.3f", c.Seconds), c.Attempt,
					c.MessageID, oneLine(c.Error)); err != nil {
					return out.end(err)
				}
			}
		}
		return out.end(nil)
	}
	return cmd
}

func noSuchFunction(name string, err error) error {
	return fmt.Errorf("this process has no function %s; lazuli workers lists those it runs (%w)", name, err)
}

// writeReport writes a report as a table, and the calls under way and last errors below.
func writeReport(out io.Writer, r workers.Report, now time.Time) error {
	if len(r.Functions) == 0 {
		fmt.Fprintln(out, "no functions")
		return nil
	}
	tw := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "FUNCTION\tTRIGGER\tSTATE\tIN FLIGHT\tPER SECOND\tSUCCEEDED\tFAILED\tPOISONED\tLEASES LOST\tSTUCK")
	for _, f := range r.Functions {
		state := "runs"
		if f.Paused {
			state = "paused"
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%d\t%.1f\t%d\t%d\t%d\t%d\t%d\n", f.Name, f.Trigger, state, f.InFlight, f.PerSecond,
			f.Succeeded, f.Failed, f.Poisoned, f.LeaseLost, f.Stuck)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	for _, f := range r.Functions {
		for _, c := range f.Running {
			fmt.Fprintf(out, "%s: invocation %s, attempt %d, message %s, for %v\n", f.Name, c.InvocationID, c.Attempt,
				c.MessageID, now.Sub(c.Since).Round(time.Millisecond))
		}
	}
	for _, f := range r.Functions {
		if f.LastErrorAt != nil {
			fmt.Fprintf(out, "%s: last error %v ago: %s\n", f.Name, now.Sub(*f.LastErrorAt).Round(time.Second),
				oneLine(f.LastError))
		}
	}
	return nil
}
