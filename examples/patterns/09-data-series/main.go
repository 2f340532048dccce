// Data series: one entity for a series of values, in place of one for each value.
//
// Problem: the data has the holder of a seat for each year. With an entity for each year, reading a decade reads ten
// entities, each with the overhead of an entity.
//
// Solution: one entity for a seat and decade, with a property for each year. Adding a year is a merge of one property.
//
// When: values come in a known number, and are read together. Cost: at most 252 values and 1 MiB; single values cannot
// be compared in a query by year.
//
//	go run ./examples/patterns/09-data-series
package main

import (
	"context"
	"fmt"

	"github.com/lazuli-storage/lazuli/examples/patterns/run"
	"github.com/lazuli-storage/lazuli/examples/patterns/senate"
	"github.com/lazuli-storage/lazuli/tables"
)

func main() { run.Main(example) }

// year is one value: state, "class_year".
type year struct {
	PartitionKey, RowKey string
	Party                string
}

func example(ctx context.Context, e *run.Env) error {
	years, err := run.New[year](ctx, e, "Years")
	if err != nil {
		return err
	}
	series, err := run.New[tables.Entity](ctx, e, "Series")
	if err != nil {
		return err
	}
	all, err := senate.Terms()
	if err != nil {
		return err
	}
	single := map[tables.Key]year{}
	decades := map[tables.Key]tables.Entity{}
	for _, t := range all {
		// A term ends in January, so its last year belongs to the next one.
		for y := t.Start.Year(); y < t.End.Year(); y++ {
			v := year{t.State, fmt.Sprintf("%s_%d", t.Class, y), t.Party}
			single[tables.Key{PartitionKey: v.PartitionKey, RowKey: v.RowKey}] = v
			k := tables.Key{PartitionKey: t.State, RowKey: fmt.Sprintf("%s_%d", t.Class, y/10*10)}
			// An entity of ten years; each year is a property, and a property has no room for a key of its own.
			if _, ok := decades[k]; !ok {
				decades[k] = tables.Entity{PartitionKey: k.PartitionKey, RowKey: k.RowKey, Properties: map[string]any{}}
			}
			decades[k].Properties[fmt.Sprintf("Y%d", y)] = t.Party
		}
	}
	var singles []year
	for _, v := range single {
		singles = append(singles, v)
	}
	var lists []tables.Entity
	for _, v := range decades {
		lists = append(lists, v)
	}
	if err := years.Bulk(ctx, tables.BulkInsert, singles); err != nil {
		return err
	}
	if err := series.Bulk(ctx, tables.BulkInsert, lists); err != nil {
		return err
	}
	if err := e.Costs("ten years of a seat, an entity each", func() (string, error) {
		n := 0
		for _, err := range years.Query(tables.PartitionKey.Eq("IA"), tables.RowKey.StartsWith("3_201")).All(ctx) {
			if err != nil {
				return "", err
			}
			n++
		}
		return fmt.Sprint(n, " values"), nil
	}); err != nil {
		return err
	}
	key := tables.Key{PartitionKey: "IA", RowKey: "3_2010"}
	if err := e.Costs("ten years of a seat, one entity", func() (string, error) {
		decade, err := series.Get(ctx, key)
		return fmt.Sprint(len(decade.Properties), " values"), err
	}); err != nil {
		return err
	}
	// A merge sends the new property alone: neither reading nor writing the others.
	if err := e.Costs("add a value: a merge of one property", func() (string, error) {
		return "merged", series.Merge(ctx,
			&tables.Entity{PartitionKey: "IA", RowKey: "3_2020", Properties: map[string]any{"Y2029": "unknown"}})
	}); err != nil {
		return err
	}
	e.Say("%d entities with a value each, or %d with up to ten", len(singles), len(lists))
	return nil
}
