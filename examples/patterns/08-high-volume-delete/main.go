// High-volume delete: a table for each period, so that old data goes with its table.
//
// Problem: entries expire. Deleting them means finding them, and deleting at most 100 of one partition in a
// transaction.
//
// Solution: a table for each year (or month, or day). Deleting a year takes one request, which a timer sends.
//
// When: much data expires at the same time. Cost: a query over a range of time must query each of its tables; a table
// name cannot be used again for a while.
//
//	go run ./examples/patterns/08-high-volume-delete
package main

import (
	"context"
	"fmt"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"

	"github.com/lazuli-storage/lazuli/examples/patterns/run"
	"github.com/lazuli-storage/lazuli/examples/patterns/senate"
	"github.com/lazuli-storage/lazuli/tables"
	"github.com/lazuli-storage/lazuli/workers"
)

func main() { run.Main(example) }

type oath struct {
	PartitionKey, RowKey string
	Start                time.Time
}

// cutoff is the time before which oaths are not kept.
var cutoff = time.Date(2015, 1, 1, 0, 0, 0, 0, time.UTC)

func example(ctx context.Context, e *run.Env) error {
	single, err := run.New[oath](ctx, e, "Oaths")
	if err != nil {
		return err
	}
	all, err := senate.Terms()
	if err != nil {
		return err
	}
	series := e.Name("Yearly") // the first part of the names of all tables of the series
	periods := map[string][]oath{}
	var rows []oath
	for _, t := range all {
		o := oath{t.State, fmt.Sprintf("%s_%02d", t.Member, t.Number), t.Start}
		rows = append(rows, o)
		name := tables.PeriodName(series, tables.Yearly, t.Start)
		periods[name] = append(periods[name], o)
	}
	if err := single.Bulk(ctx, tables.BulkInsert, rows); err != nil {
		return err
	}
	for name, list := range periods {
		table, err := tables.New[oath](e.Service, name, tables.CreateIfMissing())
		if err != nil {
			return err
		}
		e.Later(table.Drop)
		if err := table.Bulk(ctx, tables.BulkInsert, list); err != nil {
			return err
		}
	}
	if err := e.Costs("one table: find the old ones, delete them by partition", func() (string, error) {
		var old []oath
		for o, err := range single.Query(tables.Field("Start").Lt(cutoff)).AllowScan().All(ctx) {
			if err != nil {
				return "", err
			}
			old = append(old, o)
		}
		return fmt.Sprint(len(old), " deleted"), single.Bulk(ctx, tables.BulkDelete, old)
	}); err != nil {
		return err
	}
	// In a program, a timer does it.
	workers.New(workers.Config{Storage: e.Storage}).Timer("expire", func(ctx context.Context, _ workers.TimerInfo) error {
		_, err := expire(ctx, e.Service, series, time.Now().AddDate(-10, 0, 0))
		return err
	}, workers.WithSchedule("0 0 3 * * *"))
	return e.Costs("a table for each year: drop the old ones", func() (string, error) {
		n, err := expire(ctx, e.Service, series, cutoff)
		return fmt.Sprint(n, " tables dropped"), err
	})
}

// expire drops the tables of a series whose period ended by a time.
func expire(ctx context.Context, service *aztables.ServiceClient, series string, before time.Time) (dropped int,
	err error) {
	for pager := service.NewListTablesPager(nil); pager.More(); {
		page, err := pager.NextPage(ctx)
		if err != nil {
			return dropped, err
		}
		for _, t := range page.Tables {
			if _, to, ok := tables.ParsePeriodName(series, tables.Yearly, *t.Name); ok && !to.After(before) {
				if _, err := service.DeleteTable(ctx, *t.Name, nil); err != nil {
					return dropped, err
				}
				dropped++
			}
		}
	}
	return dropped, nil
}
