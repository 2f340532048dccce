// Large entities: properties beyond 64 KiB, and entities beyond 1 MiB, in blobs.
//
// Problem: a report has 100 KiB of text; a property has room for 64 KiB.
//
// Solution: the text is a blob, and the entity has its name, length and hash. The built-in package
// workers/roles/largeentity does that for every property that is too large, changes the pointers under the entity's
// ETag, and deletes the blobs of crashed writers; `lazuli demo large-entities` kills the writers.
//
// When: some values are large, and mostly read alone. Cost: a write is a blob and two requests to the table, a read one
// of each.
//
//	go run ./examples/patterns/11-large-entities
package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/lazuli-storage/lazuli/examples/patterns/run"
	"github.com/lazuli-storage/lazuli/examples/patterns/senate"
	"github.com/lazuli-storage/lazuli/tables"
	"github.com/lazuli-storage/lazuli/workers/roles/largeentity"
)

func main() { run.Main(example) }

type report struct {
	Title string
	Text  string
}

func example(ctx context.Context, e *run.Env) error {
	container, err := e.Container(ctx, "reports")
	if err != nil {
		return err
	}
	store, err := largeentity.New[report](e.Storage, e.Name("Reports"), container)
	if err != nil {
		return err
	}
	if err := store.Create(ctx); err != nil {
		return err
	}
	all, err := senate.Terms()
	if err != nil {
		return err
	}
	// More than 64 KiB, which is the most that a property can have.
	var text strings.Builder
	for _, t := range all {
		for y := t.Start.Year(); y < t.End.Year(); y++ {
			fmt.Fprintf(&text, "%d: %s of %s held the seat of class %s for the %s party.\n", y, t.Name, t.State, t.Class,
				t.Party)
		}
	}
	plain, err := run.New[tables.Entity](ctx, e, "Plain")
	if err != nil {
		return err
	}
	err = plain.Insert(ctx, &tables.Entity{PartitionKey: "reports", RowKey: "1",
		Properties: map[string]any{"Text": text.String()}})
	e.Say("%d KiB as a property: refused: %v", text.Len()>>10, err != nil)
	// The example would show nothing if the service took the property.
	if err == nil {
		return errors.New("a property of that size was stored")
	}
	key := largeentity.Key{PartitionKey: "reports", RowKey: "seats"}
	if err := e.Costs("insert, with the text in a blob", func() (string, error) {
		_, err := store.Insert(ctx, key, report{"Seats", text.String()})
		return "inserted", err
	}); err != nil {
		return err
	}
	return e.Costs("read, with the blob, by its hash", func() (string, error) {
		got, err := store.Get(ctx, key)
		// The store compares the hash; comparing the text shows that nothing was exchanged.
		if err == nil && got.Value.Text != text.String() {
			err = errors.New("another text was read than written")
		}
		return fmt.Sprint(len(got.Value.Text)>>10, " KiB"), err
	})
}
