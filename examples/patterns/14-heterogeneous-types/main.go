// Heterogeneous entity types: different types in one table and partition.
//
// Problem: a page shows a state with its senators. In two tables they take two requests, and cannot be changed in one
// transaction.
//
// Solution: both types are in one partition; the property EntityType distinguishes them, prefixes of the RowKey keep
// each type together. One query reads both, one transaction changes both.
//
// When: entities are read or changed together. Cost: programs must ask for the type, which package tables does.
//
//	go run ./examples/patterns/14-heterogeneous-types
package main

import (
	"context"
	"fmt"

	"github.com/lazuli-storage/lazuli/examples/patterns/run"
	"github.com/lazuli-storage/lazuli/examples/patterns/senate"
	"github.com/lazuli-storage/lazuli/tables"
)

func main() { run.Main(example) }

type state struct {
	PartitionKey, RowKey string // "state"
	Senators             int32
}

type senator struct {
	PartitionKey, RowKey string // "senator_" and the id
	Name, Party          string
}

func example(ctx context.Context, e *run.Env) error {
	name := e.Name("States")
	everything, err := tables.New[any](e.Service, name, tables.WithType[state]("State"),
		tables.WithType[senator]("Senator"))
	if err != nil {
		return err
	}
	states, err := tables.New[state](e.Service, name, tables.WithType[state]("State"), tables.CreateIfMissing())
	if err != nil {
		return err
	}
	senators, err := tables.New[senator](e.Service, name, tables.WithType[senator]("Senator"))
	if err != nil {
		return err
	}
	all, err := senate.Senators()
	if err != nil {
		return err
	}
	byState := map[string][]senator{}
	for _, t := range all {
		byState[t.State] = append(byState[t.State], senator{t.State, "senator_" + t.Member, t.Name, t.Party})
	}
	for code, list := range byState {
		tx := states.Begin()
		// State and senators have one PartitionKey, and Join puts two types into one transaction.
		tx.Insert(&state{code, "state", int32(len(list))})
		more, err := tables.Join(tx.Transaction, senators)
		if err != nil {
			return err
		}
		for i := range list {
			more.Insert(&list[i])
		}
		if err := tx.Submit(ctx); err != nil {
			return err
		}
	}
	if err := e.Costs("a state and its senators: one query, two types", func() (string, error) {
		text := ""
		for row, err := range everything.Query(tables.PartitionKey.Eq("VT")).All(ctx) {
			if err != nil {
				return "", err
			}
			// The property Type of each row says which struct it becomes.
			switch row := row.(type) {
			case *state:
				text += fmt.Sprintf("; %d senators", row.Senators)
			case *senator:
				text += "; " + row.Name
			}
		}
		return text[2:], nil
	}); err != nil {
		return err
	}
	return e.Costs("the senators alone: a range of keys", func() (string, error) {
		n := 0
		// The prefix in the key keeps the other type out; a filter on the property would scan it.
		for _, err := range senators.Query(tables.PartitionKey.Eq("VT"), tables.RowKey.StartsWith("senator_")).All(ctx) {
			if err != nil {
				return "", err
			}
			n++
		}
		return fmt.Sprint(n, " senators"), nil
	})
}
