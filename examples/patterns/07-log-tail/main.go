// Log tail: the latest entities first.
//
// Problem: results are in the order of the keys. The latest entries of a partition whose keys are times come last,
// after all others.
//
// Solution: RowKey = the ticks from the entity's time to the end of time. The latest entry has the smallest key.
//
// When: most queries ask for the latest entries. Cost: all writes go to the beginning of the partition, see
// 12-append-anti-pattern.
//
//	go run ./examples/patterns/07-log-tail
package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/examples/patterns/run"
	"github.com/lazuli-storage/lazuli/examples/patterns/senate"
	"github.com/lazuli-storage/lazuli/tables"
)

func main() { run.Main(example) }

type oath struct {
	PartitionKey, RowKey string
	Name                 string
	At                   time.Time
}

const latest = 3

func example(ctx context.Context, e *run.Env) error {
	table, err := run.New[oath](ctx, e, "Oaths")
	if err != nil {
		return err
	}
	all, err := senate.Terms()
	if err != nil {
		return err
	}
	var rows []oath
	for _, t := range all {
		ticks, err := tables.InvertedTicks(t.Start)
		if err != nil {
			return err
		}
		// The same rows under both orders, in two partitions, to compare the costs. The member's ID makes keys of one
		// moment differ.
		rows = append(rows, oath{"by time", tables.TimeKey(t.Start) + " " + t.Member, t.Name, t.Start},
			oath{"latest first", ticks + " " + t.Member, t.Name, t.Start})
	}
	if err := table.Bulk(ctx, tables.BulkInsert, rows); err != nil {
		return err
	}
	if err := e.Costs("keys in the order of time: all of them, and the last kept", func() (string, error) {
		var last []oath
		for o, err := range table.Query(tables.PartitionKey.Eq("by time")).All(ctx) {
			if err != nil {
				return "", err
			}
			last = append(last, o)
		}
		// Ascending keys put the latest at the end, so everything before is read only to be dropped.
		slices.Reverse(last)
		return names(last[:latest]), nil
	}); err != nil {
		return err
	}
	return e.Costs("inverted ticks: the first ones", func() (string, error) {
		var first []oath
		// Ascending inverted ticks put the latest first: the query ends after them.
		for o, err := range table.Query(tables.PartitionKey.Eq("latest first")).Limit(latest).All(ctx) {
			if err != nil {
				return "", err
			}
			first = append(first, o)
		}
		return names(first), nil
	})
}

func names(list []oath) string {
	var texts []string
	for _, o := range list {
		texts = append(texts, o.At.Format(time.DateOnly))
	}
	return strings.Join(texts, ", ")
}
