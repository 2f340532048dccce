// Prepend and append anti-pattern: keys that grow with time send all writes to one partition.
//
// Problem: entries with the day as PartitionKey, or one PartitionKey and the time as RowKey, all go to one partition,
// and so to one server, which handles at most 2,000 entities a second; then it answers 503 Server Busy, while the
// others are idle.
//
// Solution: a prefix that spreads keys over a fixed number of partitions. With a hash, the same key is always in the
// same partition. A query for a day reads all partitions, in parallel.
//
// When: entries come faster than one partition takes. Cost: as many queries as there are prefixes, for each range.
//
// `lazuli table stats TABLE` shows the partitions of a table, and a fault rule with
// --throttle-partition-entities limits them as Azure does (docs/patterns.md). The program shows how many of a day's
// writes each of them gets.
//
//	go run ./examples/patterns/12-append-anti-pattern
package main

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/lazuli-storage/lazuli/examples/patterns/run"
	"github.com/lazuli-storage/lazuli/examples/patterns/senate"
	"github.com/lazuli-storage/lazuli/tables"
)

func main() { run.Main(example) }

type entry struct {
	PartitionKey, RowKey string
	Name                 string
}

const partitions = 8

func example(ctx context.Context, e *run.Env) error {
	all, err := senate.Senators()
	if err != nil {
		return err
	}
	// All vote on one day.
	const day = "2026-06-15"
	layouts := []struct {
		table, name string
		key         func(senate.Term) string
	}{
		{"VotesByDay", "the day is the PartitionKey", func(senate.Term) string { return day }},
		{"VotesByHash", "a hash of the voter before the day",
			func(t senate.Term) string { return tables.HashPrefix(t.Member, partitions) + "_" + day }},
	}
	var spread *tables.Table[entry] // that of the last layout
	for _, l := range layouts {
		table, err := run.New[entry](ctx, e, l.table)
		if err != nil {
			return err
		}
		counts := map[string]int{}
		var rows []entry
		for _, t := range all {
			r := entry{l.key(t), t.Member, t.Name}
			counts[r.PartitionKey]++
			rows = append(rows, r)
		}
		busiest := slices.Max(slices.Collect(maps.Values(counts)))
		err = e.Costs(l.name, func() (string, error) {
			return fmt.Sprintf("partitions: %d; the busiest gets %d of %d writes", len(counts), busiest, len(rows)),
				insertEach(ctx, table, rows)
		})
		if err != nil {
			return err
		}
		spread = table
	}
	return e.Costs("the price: a day is a query for each prefix, in parallel", func() (string, error) {
		var g errgroup.Group
		found := make([]int, partitions)
		for i, prefix := range tables.HashPrefixes(partitions) {
			g.Go(func() (err error) {
				found[i], err = spread.Query(tables.PartitionKey.Eq(prefix + "_" + day)).Count(ctx)
				return err
			})
		}
		err := g.Wait()
		sum := 0
		for _, n := range found {
			sum += n
		}
		return fmt.Sprint(sum, " votes"), err
	})
}

// insertEach inserts each entry as it comes, some at a time.
func insertEach(ctx context.Context, table *tables.Table[entry], rows []entry) error {
	var g errgroup.Group
	g.SetLimit(16)
	for i := range rows {
		g.Go(func() error { return table.Insert(ctx, &rows[i]) })
	}
	return g.Wait()
}
