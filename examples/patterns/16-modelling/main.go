// Modelling relations: one to many in three ways, one to one, joins in the client, and inheritance.
//
// One to many, a state and its senators:
//
//	two types in one partition       read together, changed in one transaction; the partition grows
//	two tables                       independent; two requests, and no transaction
//	the many in a property of the one  one request; at most 64 KiB, and no query for one of them
//
// One to one: as one entity, unless one half is rarely read, or large: then two entities with the same PartitionKey.
//
// Join in the client: read the keys, then the entities, in parallel. Inheritance: one table, with the type in a
// property, and an interface in Go.
//
//	go run ./examples/patterns/16-modelling
package main

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/lazuli-storage/lazuli/examples/patterns/run"
	"github.com/lazuli-storage/lazuli/examples/patterns/senate"
	"github.com/lazuli-storage/lazuli/tables"
)

func main() { run.Main(example) }

type (
	state struct {
		PartitionKey, RowKey string
	}
	senator struct {
		PartitionKey, RowKey string
		Name, Party          string
	}
	// stateWithSenators has the many in a property.
	stateWithSenators struct {
		PartitionKey, RowKey string
		Senators             []senator `table:",json"`
	}
	// official is the interface of all kinds of senators.
	official interface{ Title() string }
	junior   struct{ senator }
	senior   struct {
		senator
		Since int32
	}
)

func (junior) Title() string { return "junior senator" }
func (senior) Title() string { return "senior senator" }

func example(ctx context.Context, e *run.Env) error {
	all, err := senate.Senators()
	if err != nil {
		return err
	}
	byState := map[string][]senator{}
	for _, t := range all {
		byState[t.State] = append(byState[t.State], senator{t.State, "senator_" + t.Member, t.Name, t.Party})
	}
	for _, part := range []func(context.Context, *run.Env, map[string][]senator) error{onePartition, twoTables, oneEntity,
		join, inheritance} {
		if err := part(ctx, e, byState); err != nil {
			return err
		}
	}
	return nil
}

func onePartition(ctx context.Context, e *run.Env, byState map[string][]senator) error {
	name := e.Name("Together")
	states, err := tables.New[state](e.Service, name, tables.WithType[state]("State"), tables.CreateIfMissing())
	if err != nil {
		return err
	}
	senators, err := tables.New[senator](e.Service, name, tables.WithType[senator]("Senator"))
	if err != nil {
		return err
	}
	both, err := tables.New[any](e.Service, name, tables.WithType[state]("State"), tables.WithType[senator]("Senator"))
	if err != nil {
		return err
	}
	tx := states.Begin()
	tx.Insert(&state{"VT", "state"})
	more, err := tables.Join(tx.Transaction, senators)
	if err != nil {
		return err
	}
	for _, s := range byState["VT"] {
		more.Insert(&s)
	}
	if err := tx.Submit(ctx); err != nil {
		return err
	}
	return e.Costs("one to many: two types in one partition", func() (string, error) {
		n := 0
		for _, err := range both.Query(tables.PartitionKey.Eq("VT")).All(ctx) {
			if err != nil {
				return "", err
			}
			n++
		}
		return fmt.Sprint("1 state, ", n-1, " senators"), nil
	})
}

func twoTables(ctx context.Context, e *run.Env, byState map[string][]senator) error {
	states, err := run.New[state](ctx, e, "States")
	if err != nil {
		return err
	}
	senators, err := run.New[senator](ctx, e, "Senators")
	if err != nil {
		return err
	}
	if err := states.Insert(ctx, &state{"VT", "state"}); err != nil {
		return err
	}
	if err := senators.Bulk(ctx, tables.BulkInsert, byState["VT"]); err != nil {
		return err
	}
	return e.Costs("one to many: two tables", func() (string, error) {
		if _, err := states.Get(ctx, tables.Key{PartitionKey: "VT", RowKey: "state"}); err != nil {
			return "", err
		}
		n := 0
		for _, err := range senators.Query(tables.PartitionKey.Eq("VT")).All(ctx) {
			if err != nil {
				return "", err
			}
			n++
		}
		return fmt.Sprint("1 state, ", n, " senators"), nil
	})
}

func oneEntity(ctx context.Context, e *run.Env, byState map[string][]senator) error {
	table, err := run.New[stateWithSenators](ctx, e, "Embedded")
	if err != nil {
		return err
	}
	if err := table.Insert(ctx, &stateWithSenators{"VT", "state", byState["VT"]}); err != nil {
		return err
	}
	return e.Costs("one to many: the many in a property", func() (string, error) {
		s, err := table.Get(ctx, tables.Key{PartitionKey: "VT", RowKey: "state"})
		return fmt.Sprint("1 state, ", len(s.Senators), " senators"), err
	})
}

// join reads the keys of a committee's members, and then the members, which are in different partitions.
func join(ctx context.Context, e *run.Env, byState map[string][]senator) error {
	senators, err := run.New[senator](ctx, e, "Members")
	if err != nil {
		return err
	}
	committee, err := run.New[senator](ctx, e, "Committee")
	if err != nil {
		return err
	}
	for _, code := range []string{"VT", "IA", "NY", "WA"} {
		s := byState[code][0]
		if err := senators.Insert(ctx, &s); err != nil {
			return err
		}
		if err := committee.Insert(ctx,
			&senator{PartitionKey: "budget", RowKey: s.PartitionKey + " " + s.RowKey, Name: s.PartitionKey,
				Party: s.RowKey}); err != nil {
			return err
		}
	}
	return e.Costs("join in the client: the keys, then point reads in parallel", func() (string, error) {
		var g errgroup.Group
		n := 0
		for m, err := range committee.Query(tables.PartitionKey.Eq("budget")).All(ctx) {
			if err != nil {
				return "", err
			}
			n++
			g.Go(func() error {
				_, err := senators.Get(ctx, tables.Key{PartitionKey: m.Name, RowKey: m.Party})
				return err
			})
		}
		return fmt.Sprint(n, " members"), g.Wait()
	})
}

func inheritance(ctx context.Context, e *run.Env, byState map[string][]senator) error {
	table, err := run.New[official](ctx, e, "Officials", tables.WithType[junior]("Junior"),
		tables.WithType[senior]("Senior"))
	if err != nil {
		return err
	}
	list := byState["VT"]
	for _, o := range []official{&junior{list[1]}, &senior{list[0], 2007}} {
		if err := table.Insert(ctx, &o); err != nil {
			return err
		}
	}
	return e.Costs("inheritance: an interface and its types", func() (string, error) {
		text := ""
		for o, err := range table.Query(tables.PartitionKey.Eq("VT")).All(ctx) {
			if err != nil {
				return "", err
			}
			text += ", " + o.Title()
		}
		return text[2:], nil
	})
}
