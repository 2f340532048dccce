package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/design"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/rig"
	"github.com/lazuli-storage/lazuli/internal/killrig"
	"github.com/lazuli-storage/lazuli/internal/test/testaccount"
)

// The workers of the designs. All but the first are wrong, each in its own way.
func init() {
	otherVariants["design"] = design.RunWorker
	otherVariants["design: last step forgotten"] = design.Naive(
		func(ctx context.Context, d *design.Design, t *design.Tables, i design.Item) error {
			list := d.Change(i)
			return d.Steps(ctx, t, list[:max(1, len(list)-1)])
		})
}

// Of every design, the changes of all items are done by workers that are killed at each of its steps in turn.
func TestDesigns(t *testing.T) {
	t.Parallel()
	for i := range design.Designs {
		d := &design.Designs[i]
		t.Run(d.Name, func(t *testing.T) {
			t.Parallel()
			points := (&design.Pattern{Design: d}).Own()
			if killrig.HasSignals {
				points = append(points, rig.Frozen)
			}
			c := rig.Config{ConnectionString: testaccount.Open(t).ConnectionString, Worker: variantWorker("design"),
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
		{"intra-partition-index/one-by-one", "intra-partition-index", "after-copies", "half written"},
		{"wide-entities/one-by-one", "wide-entities", "after-parts", "half written"},
		{"compound-key/backwards", "compound-key", "after-term", "half written"},
		{"modelling/backwards", "modelling", "after-senator", "half written"},
		{"append-anti-pattern/new-key", "append-anti-pattern", "after-entry", "changed"},
		{"design: last step forgotten", "denormalisation", "after-senator", "half"},
	} {
		t.Run(c.variant+" of "+c.design, func(t *testing.T) {
			t.Parallel()
			d := &design.Designs[slices.IndexFunc(design.Designs, func(d design.Design) bool { return d.Name == c.design })]
			config := rig.Config{ConnectionString: a.ConnectionString, Worker: variantWorker(c.variant),
				Points: []string{d.Name + "/" + c.point}, Records: 36, Seed: 1, Patience: patience, Plain: true}
			if _, err := d.Demonstrate(t.Context(), config); !errors.Is(err, rig.ErrInvariant) ||
				!strings.Contains(fmt.Sprint(err), c.want) {
				t.Fatalf("got %v, want %v saying %q", err, rig.ErrInvariant, c.want)
			}
		})
	}
}
