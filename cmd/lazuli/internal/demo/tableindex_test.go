package demo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/index"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/rig"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/testaccount"
	"github.com/lazuli-storage/lazuli/workers"
)

// indexVariants are workers of the table-index demonstrations. All but the first are wrong, each in its own way, and do
// not sweep.
func init() {
	otherVariants["table-index"] = index.RunWorker
	otherVariants["table-index: index before the change"] = index.Naive(
		func(ctx context.Context, w *index.Worker, k rig.Key, _ workers.QueueMessage, _ *workers.Storage,
			_ rig.WorkerSettings) error {
			return errors.Join(w.HandleTargets(ctx, k), w.Change(ctx, k))
		})
}

func indexDemonstrations() map[string]func(context.Context, rig.Config) (*rig.Report, error) {
	return map[string]func(context.Context, rig.Config) (*rig.Report, error){index.Copies: index.RunCopies,
		index.Lists: index.RunLists, index.Counts: index.RunCounts}
}

func TestTableIndex(t *testing.T) {
	t.Parallel()
	for kind, demonstrate := range indexDemonstrations() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			a := testaccount.Open(t)
			c := rig.Config{ConnectionString: a.ConnectionString, Worker: variantWorker("table-index"),
				Records: check.Size(90, 180), Pairs: true, SamplePairs: sample(), Seed: seed(t), Patience: patience}
			report, err := demonstrate(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			if len(report.Rows) != len(index.Points(kind))+sample() {
				t.Errorf("%d rounds, want %d", len(report.Rows), len(index.Points(kind))+sample())
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

func TestWrongTableIndexWorkersAreCaught(t *testing.T) {
	t.Parallel()
	a := testaccount.Open(t)
	for variant, c := range map[string]struct {
		kind, point string
	}{
		"table-index: index before the change": {index.Copies, "table-index/before-read"},
		"inter-partition-index/old-entry-left": {index.Copies, "table-index/after-put"},
		"inter-partition-index/no-message":     {index.Copies, "table-index/before-read"},
		"materialised-view/count-by-adding":    {index.Counts, "table-index/after-put"},
		"index-entities/no-etag":               {index.Lists, "table-index/before-put"},
	} {
		t.Run(variant, func(t *testing.T) {
			t.Parallel()
			config := rig.Config{ConnectionString: a.ConnectionString, Worker: variantWorker(variant), Points: []string{c.point},
				Records: 90, Seed: 1, Patience: patience,
				StuckAfter: stuckAfter, Plain: true}
			if _, err := indexDemonstrations()[c.kind](t.Context(), config); !errors.Is(err, rig.ErrInvariant) ||
				!strings.Contains(fmt.Sprint(err), "stuck") {
				t.Fatalf("got %v, want %v saying that work is stuck", err, rig.ErrInvariant)
			}
		})
	}
}
