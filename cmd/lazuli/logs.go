package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/spf13/cobra"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/console"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/target"
	"github.com/lazuli-storage/lazuli/internal/printable"
	"github.com/lazuli-storage/lazuli/internal/server/config"
	"github.com/lazuli-storage/lazuli/workers"
	"github.com/lazuli-storage/lazuli/workers/roles/logstore"
)

// newLogsCommand makes `lazuli logs`.
func newLogsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "logs",
		Short: "Find log lines in blobs",
	}
	cmd.AddCommand(newLogsQueryCommand())
	return cmd
}

type logsQuery struct {
	container, service, from, to, level, format string
	limit                                       int
	stats                                       bool
}

func newLogsQueryCommand() *cobra.Command {
	var f logsQuery
	cmd := &cobra.Command{
		Use:   "query",
		Short: "Print the lines of a service's log within a time range",
		Long: `Print the lines of a service's log within a time range, in the order of time.

It reads the request logs of Storage Analytics, in the container $logs, and the logs of the log-storage role, in the
container logs; --container names another one. It lists only the hours and days of the range, and reads only blobs
that can have matching lines.

Levels are trace, debug, info, notice, warn, error, critical and fatal. In a request log, requests that failed by a
fault of the service have the level error, requests that it refused the level warn. --from and --to take a time such
as 2026-03-01T12:00:00Z or 2026-03-01 (UTC), or a duration before now, such as 90m.`,
		Example: `  lazuli logs query --service queue --from 1h --level error
  lazuli logs query --service orders --from 2026-03-01 --to 2026-03-02 --format json`,
		Args: cobra.NoArgs,
	}
	connection := target.AccountFlag(cmd)
	fl := cmd.Flags()
	fl.StringVar(&f.service, "service", "",
		"service whose log is read: blob, queue, table, or a service of the log-storage role's records")
	fl.StringVar(&f.container, "container", "",
		"container of the log (default: "+logstore.AnalyticsContainer+" and "+config.Default().Roles.LogContainer+")")
	fl.StringVar(&f.from, "from", "1h", "earliest time: a time, or a duration before now")
	fl.StringVar(&f.to, "to", "0s", "end of the range: a time, or a duration before now")
	fl.StringVar(&f.level, "level", "", "minimum level (default: all)")
	fl.StringVar(&f.format, "format", "text", "text, json, or raw (the lines as stored)")
	asJSON := fl.Bool("json", false, "as --format json")
	fl.IntVar(&f.limit, "limit", 0, "maximum number of lines; 0: no limit")
	fl.BoolVar(&f.stats, "stats", false, "print the cost of the query on standard error")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *asJSON {
			// --json is on all verbs. This one had --format before, and the two may agree.
			if fl.Changed("format") && f.format != "json" {
				return console.Usage(errors.New("--json and --format " + f.format + " exclude each other"))
			}
			f.format = "json"
		}
		account, err := connection()
		if err != nil {
			return err
		}
		return f.run(cmd.Context(), account, cmd.OutOrStdout(), cmd.ErrOrStderr(), time.Now())
	}
	return cmd
}

// query checks what was asked for.
func (f *logsQuery) query(now time.Time) (q logstore.Query, err error) {
	if f.service == "" {
		return q, errors.New("logs query: --service is missing: blob, queue or table, or a service of the log-storage " +
			"role's records")
	}
	q.Service = f.service
	if q.From, err = console.ParseMoment(f.from, now); err != nil {
		return q, fmt.Errorf("--from: %w", err)
	}
	if q.To, err = console.ParseMoment(f.to, now); err != nil {
		return q, fmt.Errorf("--to: %w", err)
	}
	// An empty range would print nothing, and look like a service that logged nothing.
	if !q.From.Before(q.To) {
		return q, fmt.Errorf("--from %s is not before --to %s", q.From.Format(time.RFC3339), q.To.Format(time.RFC3339))
	}
	if f.level != "" {
		l, ok := logstore.ParseLevel(f.level)
		if !ok {
			return q, fmt.Errorf("--level is %q, not trace, debug, info, notice, warn, error, critical or fatal", f.level)
		}
		q.Level = l
	}
	switch {
	case f.format != "text" && f.format != "json" && f.format != "raw":
		return q, fmt.Errorf("--format is %q, not text, json or raw", f.format)
	case f.limit < 0:
		return q, fmt.Errorf("--limit %d is negative", f.limit)
	}
	return q, nil
}

func (f *logsQuery) run(ctx context.Context, connectionString string, out, stderr io.Writer, now time.Time) error {
	q, err := f.query(now)
	if err != nil {
		// Checked before an account is opened: a wrong flag is exit code 2 even without a server.
		return console.Usage(err)
	}
	storage, err := target.OpenStorage(connectionString)
	if err != nil {
		return err
	}
	lines, stats, err := f.open(ctx, storage, q)
	if err != nil {
		return err
	}
	found := 0
	for e, err := range lines {
		if err != nil {
			return fmt.Errorf("logs query: %w", err)
		}
		if err := f.print(out, e); err != nil {
			return err
		}
		// The limit stops the reading, too: lines come from blobs as they are asked for.
		if found++; found == f.limit {
			break
		}
	}
	if found == 0 {
		// The usual cause of an empty result in $logs is that logging was never switched on.
		hint := ""
		if f.container == "" || f.container == "$logs" {
			hint = "; blob, queue and table have some once logging is on in the properties of the service"
		}
		fmt.Fprintf(stderr, "no lines of %s in this time%s\n", f.service, hint)
	}
	// After the lines and on standard error, as these are read by programs.
	if f.stats {
		fmt.Fprintf(stderr, "%d lines found among %d, in %d blobs of %d bytes; %d lists named %d blobs; %d lines could "+
			"not be read\n",
			found, stats.Lines, stats.Read, stats.Bytes, stats.Lists, stats.Listed, stats.Malformed)
	}
	return nil
}

// open begins the query: in the container that was named, or in those of Storage Analytics and of the log-storage role.
func (f *logsQuery) open(ctx context.Context, storage *workers.Storage,
	q logstore.Query) (iter.Seq2[logstore.Entry, error], *logstore.Stats, error) {
	containers := []string{f.container}
	if f.container == "" {
		containers = []string{logstore.AnalyticsContainer, config.Default().Roles.LogContainer}
	}
	stats := new(logstore.Stats)
	var logs []iter.Seq2[logstore.Entry, error]
	for _, c := range containers {
		r, err := logstore.NewReader(storage, c)
		if err != nil {
			return nil, nil, console.Usage(err)
		}
		logs = append(logs, withoutContainer(c, f.container == "", r.Query(ctx, q, stats)))
	}
	return logstore.Merge(logs...), stats, nil
}

// withoutContainer handles a container that does not exist: it is an error only where it was named.
func withoutContainer(name string, optional bool, lines iter.Seq2[logstore.Entry, error]) iter.Seq2[logstore.Entry,
	error] {
	return func(yield func(logstore.Entry, error) bool) {
		for e, err := range lines {
			if bloberror.HasCode(err, bloberror.ContainerNotFound) {
				if optional {
					return
				}
				err = fmt.Errorf("the container %s does not exist", name)
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

func (f *logsQuery) print(out io.Writer, e logstore.Entry) error {
	var err error
	switch f.format {
	case "raw":
		_, err = fmt.Fprintln(out, e.Line)
	case "json":
		err = console.JSONLines(out).Encode(e.Record)
	default:
		message := e.Message
		if strings.ContainsFunc(message, func(r rune) bool { return !unicode.IsPrint(r) || r == '"' || r == '\\' }) {
			message = strconv.Quote(message)
		}
		line := fmt.Sprintf("%s %-5s %s", e.Time.UTC().Format("2006-01-02T15:04:05.000Z"), logstore.LevelName(e.Level),
			message)
		if e.Attrs != nil {
			line += " " + printable.Line(string(e.Attrs))
		}
		_, err = fmt.Fprintln(out, line)
	}
	return err
}
