package design

import (
	"context"
	"fmt"
	"hash/fnv"
	"math"
	"strings"

	"github.com/lazuli-storage/lazuli/tables"
)

var allKinds = []string{"insert", "change", "delete"}

// Designs are the demonstrations of the patterns that have no role, in the order of the guide.
// https://learn.microsoft.com/azure/storage/tables/table-storage-design-patterns
var Designs = []Design{
	{
		Name:  "intra-partition-index",
		Short: "Store senators under two keys of a partition, in one transaction",
		Long: `Each senator is stored under the ID and under the name. A change of name moves the second entity. At any
moment both must be there and agree, or neither; at the end each senator must be found by the name and
by the ID.`,
		kinds: allKinds,
		writes: func(n int, version int64) []write {
			p := map[string]any{"Name": nameOf(n, version)}
			return []write{{step: "copies", put: []tables.Entity{row(n, group(n), id(n), p),
				row(n, group(n), "name_"+nameOf(n, version), p)}}}
		},
		ask: func(ctx context.Context, t *Tables, n int) (string, error) {
			byID, err := t.names(ctx, tables.PartitionKey.Eq(group(n)), tables.RowKey.Eq(id(n)))
			if err != nil || byID == "" {
				return byID, err
			}
			byName, err := t.names(ctx, tables.PartitionKey.Eq(group(n)), tables.RowKey.Eq("name_"+byID))
			return byID + "=" + byName, err
		},
		answer: func(n int, version int64) string { return nameOf(n, version) + "=" + nameOf(n, version) },
	},
	{
		Name:  "denormalisation",
		Short: "Repeat a senator's name in the terms, which another partition has",
		Long: `The senators are in one table, the terms with the names of their senators in another. A change of name
is made to the senator first, then to all terms in one transaction: readers may see old names in the
terms, but never two names. At the end, the terms must have the name of their senator.`,
		kinds: allKinds,
		writes: func(n int, version int64) []write {
			p := map[string]any{"Name": nameOf(n, version)}
			return []write{{step: "senator", table: "Senators", put: []tables.Entity{row(n, group(n), id(n), p)}},
				{step: "terms", put: details(n, p)}}
		},
		ask: func(ctx context.Context, t *Tables, n int) (string, error) {
			return t.names(ctx, tables.PartitionKey.Eq(group(n)), tables.RowKey.StartsWith(id(n)+"_"))
		},
		answer: func(n int, version int64) string { return repeated(nameOf(n, version), 3) },
	},
	{
		Name:  "compound-key",
		Short: "Store senators and their terms under keys with one prefix",
		Long: `The RowKey of a term is the senator's ID and a number, so that one range has a senator with all terms.
Each is written by its own request, the senator first; deletions run backwards. At no moment may a term
be there without its senator; at the end, the range must return each senator with all terms, in order.`,
		kinds: allKinds,
		writes: func(n int, version int64) (list []write) {
			p := map[string]any{"Name": nameOf(n, version)}
			list = append(list, write{step: "senator", put: []tables.Entity{row(n, group(n), id(n), p)}})
			for _, e := range details(n, p) {
				list = append(list, write{step: "term", put: []tables.Entity{e}})
			}
			return list
		},
		ask: func(ctx context.Context, t *Tables, n int) (string, error) {
			return t.names(ctx, tables.PartitionKey.Eq(group(n)), tables.RowKey.StartsWith(id(n)))
		},
		answer: func(n int, version int64) string { return repeated(nameOf(n, version), 4) },
	},
	{
		Name:  "log-tail",
		Short: "Append to logs whose latest entries come first",
		Long: `The RowKey of an entry counts down, so that the latest entries of a log come first. A message that is
delivered twice must not make a second entry. At the end, the first entries of a log, from each of its
entries on, must be that entry and the ones before it.`,
		kinds: []string{"insert"},
		writes: func(n int, version int64) []write {
			return []write{{step: "entry", put: []tables.Entity{row(n, group(n), countdown(n), nil)}}}
		},
		ask: func(ctx context.Context, t *Tables, n int) (string, error) {
			table, err := t.open("")
			if err != nil {
				return "", err
			}
			list, err := readAll(ctx, table.Query(tables.PartitionKey.Eq(group(n)), tables.RowKey.Ge(countdown(n))).Limit(3))
			return joined(list, itemProperty), err
		},
		answer: func(n int, _ int64) string {
			var entries []string
			for at := n; at >= 0 && len(entries) < 3; at -= groups {
				entries = append(entries, fmt.Sprint(at))
			}
			return strings.Join(entries, ",")
		},
	},
	{
		Name:  "high-volume-delete",
		Short: "Delete old entries a table at a time while new ones are written",
		Long: `Each year has a table of its own, and expires as a whole by one request. New entries are written
meanwhile. At any moment a year must be there with all its entries, or gone; no other may lose one.`,
		kinds: []string{"delete", "insert"},
		writes: func(n int, version int64) []write {
			p := map[string]any{"Name": nameOf(n, version)}
			if n%2 == 0 {
				return []write{{step: "table", table: year(n), drop: true, put: details(n, p)}}
			}
			return []write{{step: "entry", put: []tables.Entity{row(n, group(n), id(n), p)}}}
		},
		ask: func(ctx context.Context, t *Tables, n int) (string, error) {
			suffix := ""
			if n%2 == 0 {
				suffix = year(n)
			}
			table, err := t.open(suffix)
			if err != nil {
				return "", err
			}
			list, err := readAll(ctx, table.Query(tables.PartitionKey.Eq(group(n)), tables.RowKey.StartsWith(id(n))))
			return joined(list, "Name"), err
		},
		answer: nameOf,
	},
	{
		Name:  "data-series",
		Short: "Write a series of values into one entity, a value at a time",
		Long: `The values of a seat are properties of one entity, and each is written by a merge of its own. A repeated
or late merge must change no other value. At the end, one point query must return each series, complete
and current.`,
		kinds: []string{"insert", "change"},
		writes: func(n int, version int64) (list []write) {
			for _, name := range series {
				list = append(list, write{step: "value", merge: true,
					put: []tables.Entity{row(n, group(n), id(n), map[string]any{name: nameOf(n, version)})}})
			}
			return list
		},
		ask: func(ctx context.Context, t *Tables, n int) (string, error) {
			list, err := t.query(ctx, tables.PartitionKey.Eq(group(n)), tables.RowKey.Eq(id(n)))
			return joined(list, series...), err
		},
		answer: func(n int, version int64) string { return repeated(nameOf(n, version), len(series)) },
	},
	{
		Name:  "wide-entities",
		Short: "Split entities of more than 252 properties over two, in one transaction",
		Long: `An item has 260 properties, in two entities of a partition that one transaction writes. At any moment
both must have the same version, or none be there; at the end, a range query must return all properties.`,
		kinds: allKinds,
		writes: func(n int, version int64) []write {
			w := write{step: "parts"}
			for part := range 2 {
				properties := map[string]any{}
				for i := range wideProperties / 2 {
					properties[fmt.Sprintf("P%03d", part*wideProperties/2+i)] = version
				}
				w.put = append(w.put, row(n, group(n), fmt.Sprintf("%s_%d", id(n), part), properties))
			}
			return []write{w}
		},
		ask: func(ctx context.Context, t *Tables, n int) (string, error) {
			list, err := t.query(ctx, tables.PartitionKey.Eq(group(n)), tables.RowKey.StartsWith(id(n)+"_"))
			count := map[any]int{}
			for _, e := range list {
				for name, value := range e.Properties {
					if name != itemProperty {
						count[value]++
					}
				}
			}
			if len(count) == 0 {
				return "", err
			}
			return fmt.Sprint(count), err
		},
		answer: func(_ int, version int64) string { return fmt.Sprint(map[any]int{version: wideProperties}) },
	},
	{
		Name:  "append-anti-pattern",
		Short: "Spread entries, whose keys grow with time, over partitions",
		Long: `A prefix, the hash of the entry, spreads the entries of a day over eight partitions, so that none takes
all writes. An entry that is delivered twice must get the same prefix again. At the end, the queries of
all partitions together must return each entry once.`,
		kinds: []string{"insert"},
		writes: func(n int, _ int64) []write {
			return []write{{step: "entry", put: []tables.Entity{row(n, spread(n), id(n), nil)}}}
		},
		ask: func(ctx context.Context, t *Tables, n int) (string, error) {
			var all []tables.Entity
			for prefix := range groups {
				list, err := t.query(ctx, tables.PartitionKey.Eq(fmt.Sprintf("%d-day", prefix)), tables.RowKey.Eq(id(n)))
				if err != nil {
					return "", err
				}
				all = append(all, list...)
			}
			return joined(all, itemProperty), nil
		},
		answer: func(n int, _ int64) string { return fmt.Sprint(n) },
	},
	{
		Name:  "heterogeneous-types",
		Short: "Change a state and its senators, entities of two types, in one transaction",
		Long: `A state and its two senators are entities of different types in one partition, told apart by the
property EntityType. At any moment all three must be there in the same version, or none; at the end, one
query must return each family with its types.`,
		kinds: allKinds,
		writes: func(n int, version int64) []write {
			of := func(kind, suffix string) tables.Entity {
				return row(n, group(n), id(n)+suffix, map[string]any{"EntityType": kind, "Name": nameOf(n, version)})
			}
			return []write{{step: "family",
				put: []tables.Entity{of("State", "_"), of("Senator", "_junior"), of("Senator", "_senior")}}}
		},
		ask: func(ctx context.Context, t *Tables, n int) (string, error) {
			list, err := t.query(ctx, tables.PartitionKey.Eq(group(n)), tables.RowKey.StartsWith(id(n)+"_"))
			return joined(list, "EntityType", "Name"), err
		},
		answer: func(n int, version int64) string {
			name := nameOf(n, version)
			return "State," + name + ",Senator," + name + ",Senator," + name
		},
	},
	{
		Name:  "modelling",
		Short: "Move senators from one state to another, with a second entity for details",
		Long: `A senator is in the partition of a state (one to many), and has a second entity with details under the
same keys in another table (one to one). A move writes the senator into the new state before it removes
the old entity: at no moment may a senator be in no state. At the end, each senator must be in one
state, and the join with the details must agree.`,
		kinds: allKinds,
		writes: func(n int, version int64) []write {
			p := map[string]any{"Name": nameOf(n, version)}
			return []write{{step: "details", table: "Details", put: []tables.Entity{row(n, id(n), "details", p)}},
				{step: "senator", put: []tables.Entity{row(n, state(n, version), id(n), p)}}}
		},
		ask: func(ctx context.Context, t *Tables, n int) (string, error) {
			var all []tables.Entity
			for i := range groups {
				list, err := t.query(ctx, tables.PartitionKey.Eq(fmt.Sprintf("state%d", i)), tables.RowKey.Eq(id(n)))
				if err != nil {
					return "", err
				}
				all = append(all, list...)
			}
			table, err := t.open("Details")
			if err != nil {
				return "", err
			}
			more, err := readAll(ctx, table.Query(tables.PartitionKey.Eq(id(n)), tables.RowKey.Eq("details")))
			return joined(append(all, more...), "Name"), err
		},
		answer: func(n int, version int64) string { return repeated(nameOf(n, version), 2) },
	},
}

// groups is the number of partitions over which items are spread.
const groups = 8

// wideProperties is the number of properties of a wide entity: more than the 252 of one.
const wideProperties = 260

// series are the properties of a series of values.
var series = []string{"Y01", "Y02", "Y03"}

func group(n int) string                 { return fmt.Sprintf("group%d", n%groups) }
func id(n int) string                    { return fmt.Sprintf("id_%05d", n) }
func nameOf(n int, version int64) string { return fmt.Sprintf("Senator %d.%d", n, version) }
func countdown(n int) string             { return fmt.Sprintf("%019d", math.MaxInt64-int64(n)) }
func year(n int) string                  { return fmt.Sprintf("Year%d", n) }

// state is the partition in which a version of a senator is.
func state(n int, version int64) string { return fmt.Sprintf("state%d", (n+int(version))%groups) }

// spread returns the partition of an entry of the day.
func spread(n int) string {
	h := fnv.New32a()
	h.Write([]byte(id(n)))
	return fmt.Sprintf("%d-day", h.Sum32()%groups)
}

// details returns three entities whose keys begin with the item's ID.
func details(n int, properties map[string]any) (list []tables.Entity) {
	for i := range 3 {
		list = append(list, row(n, group(n), fmt.Sprintf("%s_%02d", id(n), i), properties))
	}
	return list
}

// joined returns the values of properties of all entities, separated by commas.
func joined(list []tables.Entity, properties ...string) string {
	var values []string
	for _, e := range list {
		for _, name := range properties {
			values = append(values, fmt.Sprint(e.Properties[name]))
		}
	}
	return strings.Join(values, ",")
}

// repeated returns s n times, separated by commas.
func repeated(s string, n int) string { return strings.Repeat(s+",", n-1) + s }
