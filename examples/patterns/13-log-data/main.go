// Log data anti-pattern: store logs in blobs.
//
// Problem: log lines in a table make one partition hot, are mostly read in bulk, and must be deleted one by one.
//
// Solution: buffer lines and write them to append-only files in blobs, whose names have service and hour, and whose
// metadata has the levels. The built-in package workers/roles/logstore does it; `lazuli logs query` reads it, and
// `lazuli demo log-data` kills the writers.
//
// When: entries are written steadily, read by time, and kept for a while. Cost: a blob for some seconds of lines; a
// query lists the hours, and reads the blobs that can have such lines.
//
//	go run ./examples/patterns/13-log-data
package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/lazuli-storage/lazuli/examples/patterns/run"
	"github.com/lazuli-storage/lazuli/examples/patterns/senate"
	"github.com/lazuli-storage/lazuli/tables"
	"github.com/lazuli-storage/lazuli/workers/roles/logstore"
)

func main() { run.Main(example) }

type line struct {
	PartitionKey, RowKey string
	Level, Message       string
}

// begin is the time of the first line.
var begin = time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)

func example(ctx context.Context, e *run.Env) error {
	table, err := run.New[line](ctx, e, "Log")
	if err != nil {
		return err
	}
	container, err := e.Container(ctx, "logs")
	if err != nil {
		return err
	}
	all, err := senate.Terms()
	if err != nil {
		return err
	}
	var rows []line
	var records []logstore.Record
	for i, t := range all {
		at := begin.Add(time.Duration(i) * time.Minute)
		level := slog.LevelInfo
		// One error in twenty, so that the queries below have something to find.
		if i%20 == 0 {
			level = slog.LevelError
		}
		message := "sworn in: " + t.Name
		rows = append(rows, line{"orders", tables.TimeKey(at), level.String(), message})
		records = append(records, logstore.Record{Service: "orders", Time: at, Level: level, Message: message,
			ID: fmt.Sprint(i)})
	}
	if err := e.Costs("write to a table, a line a request", func() (string, error) {
		// One by one, as a program logs: a transaction would make the comparison unfair, and needs one partition.
		for i := range rows {
			if err := table.Insert(ctx, &rows[i]); err != nil {
				return "", err
			}
		}
		return fmt.Sprint(len(rows), " lines"), nil
	}); err != nil {
		return err
	}
	if err := e.Costs("write to blobs, gathered", func() (string, error) {
		// An hour: the lines go into blobs by their size, and at Close.
		w, err := logstore.NewWriter(e.Storage, container, logstore.WithFlushEvery(time.Hour))
		if err != nil {
			return "", err
		}
		for _, r := range records {
			if err := w.Enqueue(r); err != nil {
				return "", err
			}
		}
		if err := w.Close(ctx); err != nil {
			return "", err
		}
		return fmt.Sprint(len(records), " lines"), nil
	}); err != nil {
		return err
	}
	if err := e.Costs("errors of an hour, from the table", func() (string, error) {
		n := 0
		for _, err := range table.Query(tables.PartitionKey.Eq("orders"),
			tables.RowKey.Between(tables.TimeKey(begin.Add(time.Hour)), tables.TimeKey(begin.Add(2*time.Hour))),
			tables.Field("Level").Eq("ERROR")).All(ctx) {
			if err != nil {
				return "", err
			}
			n++
		}
		return fmt.Sprint(n, " lines"), nil
	}); err != nil {
		return err
	}
	return e.Costs("errors of an hour, from blobs", func() (string, error) {
		reader, err := logstore.NewReader(e.Storage, container)
		if err != nil {
			return "", err
		}
		n := 0
		// Blobs of other hours are left out by their names; only those that may have lines are read.
		for r, err := range reader.Query(ctx,
			logstore.Query{Service: "orders", From: begin.Add(time.Hour), To: begin.Add(2 * time.Hour)}, nil) {
			if err != nil {
				return "", err
			}
			if r.Level >= slog.LevelError {
				n++
			}
		}
		return fmt.Sprint(n, " lines"), nil
	})
}
