// Wide entities: more than 252 properties, over several entities of a partition.
//
// Problem: the party of a seat is kept for each month of thirty years, in one place: 360 values. An entity has at most
// 252 properties.
//
// Solution: split the properties over entities with a number in the RowKey, and write them in one transaction, so that
// no reader finds one without the other. A range query reads them all.
//
// When: an entity is a little too wide, and always read and written as a whole. Cost: a write is a transaction, a read
// one range query.
//
//	go run ./examples/patterns/10-wide-entities
package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/lazuli-storage/lazuli/examples/patterns/run"
	"github.com/lazuli-storage/lazuli/examples/patterns/senate"
	"github.com/lazuli-storage/lazuli/tables"
)

func main() { run.Main(example) }

// perEntity is the number of properties that one entity gets, of the 252 that it may have.
const perEntity = 250

func example(ctx context.Context, e *run.Env) error {
	table, err := run.New[tables.Entity](ctx, e, "Seats")
	if err != nil {
		return err
	}
	all, err := senate.Terms()
	if err != nil {
		return err
	}
	months := map[string]any{}
	for _, t := range all {
		if t.State != "IA" || t.Class != "3" {
			continue
		}
		for at := t.Start; at.Before(t.End) && at.Year() < 2011; at = at.AddDate(0, 1, 0) {
			months["M"+at.Format("200601")] = t.Party
		}
	}
	key := tables.Key{PartitionKey: "IA", RowKey: "class3"}
	err = table.Insert(ctx, &tables.Entity{PartitionKey: key.PartitionKey, RowKey: key.RowKey, Properties: months})
	e.Say("%d values in one entity: %v", len(months), errors.Unwrap(err))
	if err == nil {
		return errors.New("an entity of that width was stored")
	}
	if err := e.Costs("write as one transaction", func() (string, error) {
		n, err := write(ctx, table, key, months)
		return fmt.Sprint(n, " entities"), err
	}); err != nil {
		return err
	}
	return e.Costs("read as one range", func() (string, error) {
		got, err := read(ctx, table, key)
		if err == nil && !maps.Equal(got, months) {
			err = errors.New("other values were read than written")
		}
		return fmt.Sprint(len(got), " values"), err
	})
}

// write stores values under the keys "row_0", "row_1" and so on, and deletes what a wider state left behind them.
func write(ctx context.Context, table *tables.Table[tables.Entity], k tables.Key, values map[string]any) (entities int,
	err error) {
	tx := table.Begin()
	for part := range slices.Chunk(slices.Sorted(maps.Keys(values)), perEntity) {
		e := tables.Entity{PartitionKey: k.PartitionKey, RowKey: fmt.Sprintf("%s_%d", k.RowKey, tx.Len()),
			Properties: map[string]any{}}
		for _, name := range part {
			e.Properties[name] = values[name]
		}
		tx.InsertOrReplace(&e)
	}
	entities = tx.Len()
	for e, err := range table.Query(tables.PartitionKey.Eq(k.PartitionKey),
		tables.RowKey.Between(fmt.Sprintf("%s_%d", k.RowKey, entities), k.RowKey+"_:")).All(ctx) {
		if err != nil {
			return 0, err
		}
		tx.Delete(&e)
	}
	return entities, tx.Submit(ctx)
}

func read(ctx context.Context, table *tables.Table[tables.Entity], k tables.Key) (map[string]any, error) {
	values := map[string]any{}
	for e, err := range table.Query(tables.PartitionKey.Eq(k.PartitionKey),
		tables.RowKey.StartsWith(k.RowKey+"_")).All(ctx) {
		if err != nil {
			return nil, err
		}
		maps.Copy(values, e.Properties)
	}
	return values, nil
}
