package demo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/test/testaccount"
	"github.com/lazuli-storage/lazuli/tables"
	"github.com/lazuli-storage/lazuli/workers"
)

// The workers of the designs. All but the first are wrong, each in its own way.
func init() {
	otherVariants["design"] = RunDesignWorker
	wrong := func(do func(context.Context, *Design, *designTables, designItem) error) variantRun {
		return func(ctx context.Context, storage *workers.Storage, app *workers.App, s WorkerSettings) error {
			return runDesign(ctx, storage, app, s, do)
		}
	}
	steps := func(ctx context.Context, d *Design, t *designTables, list []write) error {
		for _, w := range list {
			if err := d.step(w, func() error { return t.do(ctx, w) }); err != nil {
				return err
			}
		}
		return nil
	}
	otherVariants["design: no transaction"] = wrong(
		func(ctx context.Context, d *Design, t *designTables, i designItem) error {
			var list []write
			for _, w := range d.change(i) {
				for _, e := range w.put {
					list = append(list, write{step: w.step, table: w.table, put: []tables.Entity{e}})
				}
				for _, e := range w.remove {
					list = append(list, write{step: w.step, table: w.table, remove: []tables.Entity{e}})
				}
			}
			return steps(ctx, d, t, list)
		})
	otherVariants["design: backwards"] = wrong(
		func(ctx context.Context, d *Design, t *designTables, i designItem) error {
			list := d.change(i)
			slices.Reverse(list)
			return steps(ctx, d, t, list)
		})
	otherVariants["design: another key each time"] = wrong(
		func(ctx context.Context, d *Design, t *designTables, i designItem) error {
			list := d.change(i)
			for _, w := range list {
				w.put[0].PartitionKey = fmt.Sprintf("%d-day", rand.Uint32())
			}
			return steps(ctx, d, t, list)
		})
	otherVariants["design: last step forgotten"] = wrong(
		func(ctx context.Context, d *Design, t *designTables, i designItem) error {
			list := d.change(i)
			return steps(ctx, d, t, list[:max(1, len(list)-1)])
		})
}

// Of every design, the changes of all items are done by workers that are killed at each of its steps in turn.
func TestDesigns(t *testing.T) {
	t.Parallel()
	for i := range Designs {
		d := &Designs[i]
		t.Run(d.Name, func(t *testing.T) {
			t.Parallel()
			points := (&designPattern{Design: d}).own()
			if canFreeze {
				points = append(points, Frozen)
			}
			c := Config{ConnectionString: testaccount.Open(t).ConnectionString, Worker: variantWorker("design"),
				Points: points, Records: 24 * len(points), Seed: seed(t), Patience: patience}
			report, err := d.Demonstrate(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			if len(report.Rows) != len(points) {
				t.Errorf("%d rounds, want one for each of %v", len(report.Rows), points)
			}
			undone := 0
			for _, row := range report.Rows {
				for _, crash := range row.Crashes {
					undone += crash.Kept + crash.Both
				}
			}
			if undone == 0 {
				t.Error("no kill left work undone: they prove nothing")
			}
		})
	}
}

func TestWrongDesignWorkersAreCaught(t *testing.T) {
	t.Parallel()
	a := testaccount.Open(t)
	for _, c := range []struct{ variant, design, point, want string }{
		{"design: no transaction", "intra-partition-index", "after-copies", "half written"},
		{"design: no transaction", "wide-entities", "after-parts", "half written"},
		{"design: backwards", "compound-key", "after-term", "half written"},
		{"design: backwards", "modelling", "after-senator", "half written"},
		{"design: another key each time", "append-anti-pattern", "after-entry", "changed"},
		{"design: last step forgotten", "denormalisation", "after-senator", "duplicated"},
	} {
		t.Run(c.variant+" of "+c.design, func(t *testing.T) {
			t.Parallel()
			d := &Designs[slices.IndexFunc(Designs, func(d Design) bool { return d.Name == c.design })]
			config := Config{ConnectionString: a.ConnectionString, Worker: variantWorker(c.variant),
				Points: []string{d.Name + "/" + c.point}, Records: 36, Seed: 1, Patience: patience, plain: true}
			if _, err := d.Demonstrate(t.Context(), config); !errors.Is(err, ErrInvariant) ||
				!strings.Contains(fmt.Sprint(err), c.want) {
				t.Fatalf("got %v, want %v saying %q", err, ErrInvariant, c.want)
			}
		})
	}
}
