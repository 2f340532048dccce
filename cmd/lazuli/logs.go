package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/spf13/cobra"

	"github.com/lazuli-storage/lazuli/workers/roles/logstore"
)

// newLogsCommand makes `lazuli logs`.
func newLogsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "logs",
		Short: "Find log lines in blobs",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
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

It reads the request logs of Storage Analytics, in the container $logs, and, with --container, what the log-storage
role writes. Only the hours and days of the range are listed, and only blobs are read that may have such lines.

Levels are debug, info, warn and error. In a request log, what the service failed at is an error, and what it refused
a warning. --from and --to take times such as 2026-03-01T12:00:00Z or 2026-03-01 (UTC), or how long ago: 90m.`,
		Example: `  lazuli logs query --service queue --from 1h --level error
  lazuli logs query --container logs --service orders --from 2026-03-01 --to 2026-03-02 --format json`,
		Args: cobra.NoArgs,
	}
	connection := accountFlag(cmd)
	fl := cmd.Flags()
	fl.StringVar(&f.service, "service", "", "service whose log is read: blob, queue or table, or what records of the log-storage role name")
	fl.StringVar(&f.container, "container", logstore.AnalyticsContainer, "container of the log")
	fl.StringVar(&f.from, "from", "1h", "earliest time")
	fl.StringVar(&f.to, "to", "0s", "time before which lines are (default: now)")
	fl.StringVar(&f.level, "level", "", "least level (default: all)")
	fl.StringVar(&f.format, "format", "text", "text, json, or raw: the lines as they stand in the blobs")
	fl.IntVar(&f.limit, "limit", 0, "stop after so many lines; 0 is no limit")
	fl.BoolVar(&f.stats, "stats", false, "say on standard error what the query cost")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
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
		return q, errors.New("logs query: --service is missing: blob, queue or table, or with --container a service of its records")
	}
	q.Service = f.service
	if q.From, err = parseMoment(f.from, now); err != nil {
		return q, fmt.Errorf("--from: %w", err)
	}
	if q.To, err = parseMoment(f.to, now); err != nil {
		return q, fmt.Errorf("--to: %w", err)
	}
	if !q.From.Before(q.To) {
		return q, fmt.Errorf("--from %s is not before --to %s", q.From.Format(time.RFC3339), q.To.Format(time.RFC3339))
	}
	if f.level != "" {
		var l slog.Level
		if err := l.UnmarshalText([]byte(f.level)); err != nil {
			return q, fmt.Errorf("--level is %q, not debug, info, warn or error", f.level)
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

// parseMoment reads a time, a day, or how long before now.
func parseMoment(s string, now time.Time) (time.Time, error) {
	if d, err := time.ParseDuration(s); err == nil && d >= 0 {
		return now.Add(-d).UTC(), nil
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04:05", "2006-01-02 15:04", time.DateOnly} {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UTC(), nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is neither a time such as 2026-03-01T12:00:00Z nor how long ago, such as 90m", s)
}

func (f *logsQuery) run(ctx context.Context, connectionString string, out, stderr io.Writer, now time.Time) error {
	q, err := f.query(now)
	if err != nil {
		return usageError{err}
	}
	storage, err := openStorage(connectionString)
	if err != nil {
		return err
	}
	r, err := logstore.NewReader(storage, f.container)
	if err != nil {
		return usageError{err}
	}
	var stats logstore.Stats
	found := 0
	for e, err := range r.Query(ctx, q, &stats) {
		if bloberror.HasCode(err, bloberror.ContainerNotFound) {
			return fmt.Errorf("logs query: there is no container %s", f.container)
		}
		if err != nil {
			return fmt.Errorf("logs query: %w", err)
		}
		if err := f.print(out, e); err != nil {
			return err
		}
		if found++; found == f.limit {
			break
		}
	}
	if f.stats {
		fmt.Fprintf(stderr, "%d lines found among %d, in %d blobs of %d bytes; %d lists named %d blobs; %d lines could not be read\n",
			found, stats.Lines, stats.Read, stats.Bytes, stats.Lists, stats.Listed, stats.Malformed)
	}
	return nil
}

func (f *logsQuery) print(out io.Writer, e logstore.Entry) error {
	var err error
	switch f.format {
	case "raw":
		_, err = fmt.Fprintln(out, e.Line)
	case "json":
		err = json.NewEncoder(out).Encode(e.Record)
	default:
		line := fmt.Sprintf("%s %-5s %q", e.Time.UTC().Format("2006-01-02T15:04:05.000Z"), e.Level, e.Message)
		if !strings.ContainsAny(e.Message, "\"\\\n\r\t") && strings.IndexFunc(e.Message, func(r rune) bool { return r < ' ' }) < 0 {
			line = fmt.Sprintf("%s %-5s %s", e.Time.UTC().Format("2006-01-02T15:04:05.000Z"), e.Level, e.Message)
		}
		if e.Attrs != nil {
			line += " " + string(e.Attrs)
		}
		_, err = fmt.Fprintln(out, line)
	}
	return err
}
