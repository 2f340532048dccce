// Materialised view: figures about a table, kept in another one, so that reading does not compute them (with separate
// commands and queries: CQRS).
//
// Problem: how many senators each party has in a state, and in all, is shown on a page. Counting them takes a scan each
// time.
//
// Solution: a worker keeps the counts of each state in an entity, from the table's changes, or from a queue if the
// service has no table changes. It counts the whole state for each change, so a change that is delivered twice counts
// once. `lazuli demo materialised-view` kills the worker at each step.
//
// When: reads of the figures are frequent, and may be a moment old. Cost: for each change a query of one partition, in
// the background; a read is small.
//
//	go run ./examples/patterns/15-materialised-view
package main

import (
	"context"
	"fmt"

	"github.com/lazuli-storage/lazuli/examples/patterns/run"
	"github.com/lazuli-storage/lazuli/examples/patterns/senate"
	"github.com/lazuli-storage/lazuli/tables"
	"github.com/lazuli-storage/lazuli/workers/roles/tableindex"
)

func main() { run.Main(example) }

type senator struct {
	PartitionKey, RowKey string
	Party                string
}

// The view has an entity for each state, all in one partition: a page reads them with one query.
func ofState(e *tables.Entity) (tables.Key, bool) {
	return tables.Key{PartitionKey: "parties", RowKey: e.PartitionKey}, true
}

func members(target tables.Key) []tables.Expr {
	return []tables.Expr{tables.PartitionKey.Eq(target.RowKey)}
}

func party(e *tables.Entity) string {
	text, _ := tables.Value[string](e, "Party")
	return text
}

func example(ctx context.Context, e *run.Env) error {
	table, err := run.New[senator](ctx, e, "Senators")
	if err != nil {
		return err
	}
	viewName := e.Name("View")
	role, err := tableindex.New(e.Storage, table.Name(), viewName, tableindex.Counts(ofState, members, party))
	if err != nil {
		return err
	}
	all, err := senate.Senators()
	if err != nil {
		return err
	}
	var rows []senator
	for _, t := range all {
		rows = append(rows, senator{t.State, t.Member, t.Party})
	}
	if err := table.Bulk(ctx, tables.BulkInsert, rows); err != nil {
		return err
	}
	// role.Register(app, "view") has a worker do this for each change.
	for _, r := range rows {
		key := tables.Key{PartitionKey: r.PartitionKey, RowKey: r.RowKey}
		if err := role.Handle(ctx, key, []tables.Key{{PartitionKey: "parties", RowKey: r.PartitionKey}}); err != nil {
			return err
		}
	}
	if err := e.Costs("count the table", func() (string, error) {
		n := 0
		for s, err := range table.Query().AllowScan().All(ctx) {
			if err != nil {
				return "", err
			}
			if s.Party == "Independent" {
				n++
			}
		}
		return fmt.Sprint(n, " independents"), nil
	}); err != nil {
		return err
	}
	view, err := tables.New[tables.Entity](e.Service, viewName)
	if err != nil {
		return err
	}
	if err := e.Costs("one state, from the view", func() (string, error) {
		v, err := view.Get(ctx, tables.Key{PartitionKey: "parties", RowKey: "VT"})
		return fmt.Sprintf("%v of %v are independents", v.Properties["CountIndependent"], v.Properties["Count"]), err
	}); err != nil {
		return err
	}
	return e.Costs("the price: one change", func() (string, error) {
		rows[0].Party = "Independent"
		if err := table.Replace(ctx, &rows[0]); err != nil {
			return "", err
		}
		key := tables.Key{PartitionKey: rows[0].PartitionKey, RowKey: rows[0].RowKey}
		return "counted again", role.Handle(ctx, key, []tables.Key{{PartitionKey: "parties", RowKey: rows[0].PartitionKey}})
	})
}
