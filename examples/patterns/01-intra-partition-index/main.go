// Intra-partition secondary index: a second copy of each entity in the same partition, under another RowKey.
//
// Problem: senators are stored by party and id. To find one by name, the whole partition has to be read, since only
// keys have an index.
//
// Solution: store each senator twice in the partition, under "id_..." and under "name_...". Both are written in one
// transaction, so that they never disagree. A prefix keeps the two kinds of keys apart.
//
// When: the lookup knows the PartitionKey, and entities are small. Cost: twice the storage, and each write is a
// transaction of two; a lookup is a point or range query.
//
//	go run ./examples/patterns/01-intra-partition-index
package main

import (
	"context"
	"fmt"

	"github.com/lazuli-storage/lazuli/examples/patterns/run"
	"github.com/lazuli-storage/lazuli/examples/patterns/senate"
	"github.com/lazuli-storage/lazuli/tables"
)

func main() { run.Main(example) }

// senator is one of the two copies.
type senator struct {
	PartitionKey, RowKey string
	Member, Name, State  string
}

// copies are the entities of a senator.
func copies(t senate.Term) []senator {
	s := senator{t.Party, "id_" + t.Member, t.Member, t.Name, t.State}
	byName := s
	byName.RowKey = "name_" + t.Name
	return []senator{s, byName}
}

func example(ctx context.Context, e *run.Env) error {
	table, err := run.New[senator](ctx, e, "Senators")
	if err != nil {
		return err
	}
	all, err := senate.Senators()
	if err != nil {
		return err
	}
	for _, t := range all {
		// Both copies in one transaction, which is possible as they share the PartitionKey: a reader never finds one
		// without the other.
		tx := table.Begin()
		for _, c := range copies(t) {
			tx.Insert(&c)
		}
		if err := tx.Submit(ctx); err != nil {
			return err
		}
	}
	party := tables.PartitionKey.Eq("Democrat")
	one := func(q *tables.Query[senator]) func() (string, error) {
		return func() (string, error) {
			s, err := q.First(ctx)
			return s.Name, err
		}
	}
	if err := e.Costs("by name, without index: a scan of the partition",
		// The prefix keeps the copies of the index out of the result.
		one(table.Query(party, tables.Field("Name").Eq("Peter Welch"), tables.RowKey.StartsWith("id_")))); err != nil {
		return err
	}
	if err := e.Costs("by name, with index: a point query",
		one(table.Query(party, tables.RowKey.Eq("name_Peter Welch")))); err != nil {
		return err
	}
	err = e.Costs("names that begin with C, with index: a range query",
		one(table.Query(party, tables.RowKey.StartsWith("name_C"))))
	if err != nil {
		return err
	}
	return e.Costs("change both copies: one transaction", func() (string, error) {
		// The price of the pattern: a change writes each copy.
		tx := table.Begin()
		for _, c := range copies(all[len(all)-1]) {
			c.State = "DC"
			tx.Replace(&c)
		}
		return fmt.Sprint(tx.Len(), " entities changed"), tx.Submit(ctx)
	})
}
