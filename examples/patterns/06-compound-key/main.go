// Compound key: a RowKey made of two values, so that one range query finds an entity and its details.
//
// Problem: queries ask for the terms of a senator, and for a single term by its number. With the senator in a property,
// a query reads the partition; with the senator as the PartitionKey, the terms of a state are in different partitions.
//
// Solution: RowKey = id of the senator, "_", number of the term with leading zeros. A prefix finds the senator's terms,
// in order; the whole key one term.
//
// When: entities are details of another one, and are mostly read with it. Cost: no extra cost, but the parts of a key
// cannot change.
//
//	go run ./examples/patterns/06-compound-key
package main

import (
	"context"
	"fmt"

	"github.com/lazuli-storage/lazuli/examples/patterns/run"
	"github.com/lazuli-storage/lazuli/examples/patterns/senate"
	"github.com/lazuli-storage/lazuli/tables"
)

func main() { run.Main(example) }

type term struct {
	State  string
	Member string
	Number int32
	Party  string
}

func (t term) PartitionKey() string { return t.State }
func (t term) RowKey() string       { return fmt.Sprintf("%s_%02d", t.Member, t.Number) }

func example(ctx context.Context, e *run.Env) error {
	table, err := run.New[term](ctx, e, "Terms")
	if err != nil {
		return err
	}
	all, err := senate.Terms()
	if err != nil {
		return err
	}
	var rows []term
	for _, t := range all {
		rows = append(rows, term{t.State, t.Member, t.Number, t.Party})
	}
	if err := table.Bulk(ctx, tables.BulkInsert, rows); err != nil {
		return err
	}
	state := tables.PartitionKey.Eq("IA")
	numbers := func(q *tables.Query[term]) func() (string, error) {
		return func() (string, error) {
			var list []int32
			for t, err := range q.All(ctx) {
				if err != nil {
					return "", err
				}
				list = append(list, t.Number)
			}
			return fmt.Sprint("terms ", list), nil
		}
	}
	if err := e.Costs("by a property: a scan of the partition",
		// The scan is the comparison; without AllowScan the client refuses it.
		numbers(table.Query(state, tables.Field("Member").Eq("E000295")).AllowScan())); err != nil {
		return err
	}
	if err := e.Costs("by the first part of the key: a range",
		numbers(table.Query(state, tables.RowKey.StartsWith("E000295_")))); err != nil {
		return err
	}
	// Both parts of the key are known, so no query is needed.
	return e.Costs("by the whole key: a point read", func() (string, error) {
		t, err := table.Get(ctx, tables.Key{PartitionKey: "IA", RowKey: "E000295_02"})
		return fmt.Sprint("term ", t.Number), err
	})
}
