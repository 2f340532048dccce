package demo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/testaccount"
	"github.com/lazuli-storage/lazuli/workers"
)

// indexVariants are workers of the table-index demonstrations. All but the first are wrong, each in its own way, and do
// not sweep.
func init() {
	otherVariants["table-index"] = RunTableIndexWorker
	otherVariants["table-index: index before the change"] = naiveIndex(
		func(ctx context.Context, w *indexWorker, k entityKey, _ workers.QueueMessage, _ *workers.Storage,
			_ WorkerSettings) error {
			return errors.Join(w.handleTargets(ctx, k), w.change(ctx, k))
		})
}

func indexDemonstrations() map[string]func(context.Context, Config) (*Report, error) {
	return map[string]func(context.Context, Config) (*Report, error){IndexCopies: Index, IndexLists: IndexEntities,
		IndexCounts: View}
}

func TestTableIndex(t *testing.T) {
	t.Parallel()
	for kind, demonstrate := range indexDemonstrations() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			a := testaccount.Open(t)
			c := Config{ConnectionString: a.ConnectionString, Worker: variantWorker("table-index"), Records: check.Size(90, 180),
				Pairs: true, SamplePairs: sample(), Seed: seed(t), Patience: patience}
			report, err := demonstrate(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			if len(report.Rows) != len(TableIndexPoints(kind))+sample() {
				t.Errorf("%d rounds, want %d", len(report.Rows), len(TableIndexPoints(kind))+sample())
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
		"table-index: index before the change": {IndexCopies, "table-index/before-read"},
		"inter-partition-index/old-entry-left": {IndexCopies, "table-index/after-put"},
		"inter-partition-index/no-message":     {IndexCopies, "table-index/before-read"},
		"materialised-view/count-by-adding":    {IndexCounts, "table-index/after-put"},
		"index-entities/no-etag":               {IndexLists, "table-index/before-put"},
	} {
		t.Run(variant, func(t *testing.T) {
			t.Parallel()
			config := Config{ConnectionString: a.ConnectionString, Worker: variantWorker(variant), Points: []string{c.point},
				Records: 90, Seed: 1, Patience: patience,
				stuckAfter: stuckAfter, plain: true}
			if _, err := indexDemonstrations()[c.kind](t.Context(), config); !errors.Is(err, ErrInvariant) ||
				!strings.Contains(fmt.Sprint(err), "stuck") {
				t.Fatalf("got %v, want %v saying that work is stuck", err, ErrInvariant)
			}
		})
	}
}
