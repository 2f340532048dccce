// Denormalisation: data that is read together is stored together, even if it is stored more than once.
//
// Problem: a page shows terms with the name and party of their senators. Stored apart, as in a relational design, it
// takes a request for each senator.
//
// Solution: each term has its senator's name and party. A change of name, which is rare, must change all terms of the
// senator, in one transaction, since they are in one partition.
//
// When: reads are frequent and writes rare. Cost: some bytes for each term; the page is one request.
//
//	go run ./examples/patterns/05-denormalisation
package main

import (
	"context"
	"fmt"

	"github.com/lazuli-storage/lazuli/examples/patterns/run"
	"github.com/lazuli-storage/lazuli/examples/patterns/senate"
	"github.com/lazuli-storage/lazuli/tables"
)

func main() { run.Main(example) }

type member struct {
	PartitionKey, RowKey string // state, id
	Name, Party          string
}

type term struct {
	PartitionKey, RowKey string // state, id and number
	Member               string
	Years                string
}

type fullTerm struct {
	PartitionKey, RowKey string
	Name, Party, Years   string
}

func example(ctx context.Context, e *run.Env) error {
	members, err := run.New[member](ctx, e, "Members")
	if err != nil {
		return err
	}
	terms, err := run.New[term](ctx, e, "Terms")
	if err != nil {
		return err
	}
	full, err := run.New[fullTerm](ctx, e, "FullTerms")
	if err != nil {
		return err
	}
	all, err := senate.Terms()
	if err != nil {
		return err
	}
	var m []member
	var t []term
	var f []fullTerm
	for i, a := range all {
		// The terms are in the order of their members, so the first one of each makes the member.
		if i == 0 || all[i-1].Member != a.Member {
			m = append(m, member{a.State, a.Member, a.Name, a.Party})
		}
		row := fmt.Sprintf("%s_%02d", a.Member, a.Number)
		years := fmt.Sprintf("%d to %d", a.Start.Year(), a.End.Year())
		t = append(t, term{a.State, row, a.Member, years})
		// The row of the pattern has name and party, too, which the two tables above keep apart.
		f = append(f, fullTerm{a.State, row, a.Name, a.Party, years})
	}
	if err := members.Bulk(ctx, tables.BulkInsert, m); err != nil {
		return err
	}
	if err := terms.Bulk(ctx, tables.BulkInsert, t); err != nil {
		return err
	}
	if err := full.Bulk(ctx, tables.BulkInsert, f); err != nil {
		return err
	}
	state := tables.PartitionKey.Eq("IA")
	if err := e.Costs("terms, and a point read for each one's senator", func() (string, error) {
		n := 0
		for a, err := range terms.Query(state).All(ctx) {
			if err != nil {
				return "", err
			}
			if _, err := members.Get(ctx, tables.Key{PartitionKey: a.PartitionKey, RowKey: a.Member}); err != nil {
				return "", err
			}
			n++
		}
		return fmt.Sprint(n, " lines"), nil
	}); err != nil {
		return err
	}
	if err := e.Costs("terms with all that the page shows", func() (string, error) {
		n := 0
		for _, err := range full.Query(state).All(ctx) {
			if err != nil {
				return "", err
			}
			n++
		}
		return fmt.Sprint(n, " lines"), nil
	}); err != nil {
		return err
	}
	return e.Costs("the price: a change of name, in all terms", func() (string, error) {
		// All of a state's terms are in one partition, so the change of a name is one transaction.
		tx := full.Begin()
		for a, err := range full.Query(state, tables.RowKey.StartsWith("G000386_")).All(ctx) {
			if err != nil {
				return "", err
			}
			a.Name = "Chuck Grassley"
			tx.Merge(&a, "Name")
		}
		return fmt.Sprint(tx.Len(), " terms"), tx.Submit(ctx)
	})
}
