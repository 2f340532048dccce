package design

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/rig"
	"github.com/lazuli-storage/lazuli/tables"
	"github.com/lazuli-storage/lazuli/workers"
)

// Mistakes are those that a worker without the pattern makes. A step that the pattern has too is where it is killed.
var Mistakes = []rig.Mistake{
	inDesign("intra-partition-index", "one-by-one", "copies", rig.DamageHalf, oneByOne,
		"writes the two entities by two requests",
		"between the two requests a senator is found by the ID, and not by the new name"),
	inDesign("denormalisation", "one-by-one", "terms", rig.DamageHalf, oneByOne,
		"writes the terms one by one, not in a transaction",
		"between two requests, readers see two names of one senator"),
	inDesign("compound-key", "backwards", "term", rig.DamageHalf, backwards,
		"writes the terms before the senator",
		"between the requests there are terms without a senator"),
	inDesign("log-tail", "new-key", "entry", rig.DamageDoubled, newKey,
		"takes a new key at each attempt, as a clock gives one",
		"the message comes again, and its entry is written a second time under another key"),
	inDesign("high-volume-delete", "one-by-one", "table", rig.DamageHalf, oneByOne,
		"deletes the entries of a year one by one",
		"while they are deleted, readers see a part of the year, and each entry costs a request"),
	inDesign("data-series", "replace", "value", rig.DamageHalf, replaceAll,
		"writes a value by replacing the entity",
		"each value replaces those before it: a series needs a merge"),
	inDesign("wide-entities", "one-by-one", "parts", rig.DamageHalf, oneByOne,
		"writes the two entities of an item by two requests",
		"between the two requests readers see one half of the properties in another version than the other"),
	inDesign("append-anti-pattern", "new-key", "entry", rig.DamageDoubled, newKey,
		"takes a random prefix at each attempt",
		"the message comes again, and its entry is written a second time in another partition: take a hash"),
	inDesign("heterogeneous-types", "one-by-one", "family", rig.DamageHalf, oneByOne,
		"writes the state and its senators by three requests",
		"between the requests readers see a state without its senators, or of two versions"),
	inDesign("modelling", "backwards", "senator", rig.DamageHalf, backwards,
		"removes the senator from the old state, then writes it to the new one",
		"between the two requests the senator is in no state"),

	withoutMessage("intra-partition-index", "copies"), withoutMessage("denormalisation", "senator"),
	withoutMessage("compound-key", "senator"), withoutMessage("log-tail", "entry"),
	withoutMessage("high-volume-delete", "table"), withoutMessage("data-series", "value"),
	withoutMessage("wide-entities", "parts"), withoutMessage("append-anti-pattern", "entry"),
	withoutMessage("heterogeneous-types", "family"), withoutMessage("modelling", "details"),
}

// inDesign is a mistake in the writes of a design, killed after a step.
func inDesign(design, name, step, shows string, do change, does, why string) rig.Mistake {
	from, says := rig.DamageChanged, "readers see what should never be: a write in part, or out of order"
	if shows == rig.DamageDoubled {
		from, says = rig.FromSurplus, "two entities for one message"
	}
	return rig.Mistake{Demonstration: design, Name: name, Does: does, Why: why, Point: design + "/after-" + step,
		Shows: shows,
		From:  from, Says: says, Always: name == "replace", Run: Naive(do)}
}

// withoutMessage is the mistake that every design has in common.
func withoutMessage(design, step string) rig.Mistake {
	return rig.Mistake{Demonstration: design, Name: "no-message", Point: design + "/before-" + step,
		Shows: rig.DamageUndone,
		Does:  "deletes the message when it has received it, then writes",
		Why:   "nothing reminds of the work that the killed worker had in its hands",
		Run:   messageDeletedFirst}
}

// Naive makes a worker of the demonstrations of designs that changes an item by do.
func Naive(do change) rig.VariantRun {
	return func(ctx context.Context, storage *workers.Storage, app *workers.App, s rig.WorkerSettings) error {
		return runDesign(ctx, storage, app, s,
			func(ctx context.Context, d *Design, t *Tables, m *workers.Message[Item]) error {
				return do(ctx, d, t, m.Body)
			})
	}
}

// oneByOne writes each entity by a request of its own.
func oneByOne(ctx context.Context, d *Design, t *Tables, i Item) error {
	var list []write
	for _, w := range d.Change(i) {
		for _, e := range w.put {
			list = append(list, write{step: w.step, table: w.table, put: []tables.Entity{e}})
		}
		for _, e := range w.remove {
			list = append(list, write{step: w.step, table: w.table, remove: []tables.Entity{e}})
		}
	}
	return d.Steps(ctx, t, list)
}

// backwards does the writes in the other order.
func backwards(ctx context.Context, d *Design, t *Tables, i Item) error {
	list := d.Change(i)
	slices.Reverse(list)
	return d.Steps(ctx, t, list)
}

// newKey chooses another key at each attempt, as a clock or a random number does.
func newKey(ctx context.Context, d *Design, t *Tables, i Item) error {
	list := d.Change(i)
	for _, w := range list {
		w.put[0].PartitionKey = fmt.Sprintf("%d-day", rand.Uint32())
	}
	return d.Steps(ctx, t, list)
}

// replaceAll writes a value by replacing the entity, with what the worker knows of it.
func replaceAll(ctx context.Context, d *Design, t *Tables, i Item) error {
	list := d.Change(i)
	for n := range list {
		list[n].merge = false
	}
	return d.Steps(ctx, t, list)
}

// messageDeletedFirst deletes the message before the first write.
func messageDeletedFirst(ctx context.Context, storage *workers.Storage, app *workers.App, s rig.WorkerSettings) error {
	return runDesign(ctx, storage, app, s,
		func(ctx context.Context, d *Design, t *Tables, m *workers.Message[Item]) error {
			if err := rig.Acknowledge(ctx, storage, s.Queue, m.Raw); err != nil {
				return err
			}
			return d.Steps(ctx, t, d.Change(m.Body))
		})
}

// change changes an item.
type change = func(context.Context, *Design, *Tables, Item) error
