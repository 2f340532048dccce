package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/cmd/internal/searchproc"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/index"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/rig"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/search"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/testaccount"
	"github.com/lazuli-storage/lazuli/tables"
	"github.com/lazuli-storage/lazuli/workers"
	"github.com/lazuli-storage/lazuli/workers/follow"
)

// searchVariants are workers of the demonstration of the search-index role. All but the first are wrong, each in its
// own way.
func init() {
	otherVariants["search"] = search.RunWorker
	otherVariants["search: index before the change"] = wrongSearch(
		func(ctx context.Context, x *searchproc.Index, w *index.States, k rig.Key) error {
			return errors.Join(x.Update(ctx, tables.Key{PartitionKey: k.Partition, RowKey: k.Row}), w.Change(ctx, k))
		}, nil)
	otherVariants["search: deletions ignored"] = wrongSearch(
		func(ctx context.Context, x *searchproc.Index, w *index.States, k rig.Key) error {
			// else a reading of the table finds what a change would tell
			err := rig.Every(ctx, 10*time.Millisecond, func() (bool, error) {
				p, err := x.Progress(ctx)
				return p.Position != "" && !p.Reading, err
			})
			if err != nil {
				return err
			}
			return w.Change(ctx, k)
		}, func(f follow.Copy) follow.Copy { return withoutDeletions{f} })
}

// withoutDeletions forgets deleted entities.
type withoutDeletions struct{ follow.Copy }

func (f withoutDeletions) Apply(ctx context.Context, changes []workers.TableChange, p follow.Progress) error {
	changes = slices.DeleteFunc(changes, func(c workers.TableChange) bool { return len(c.Entity) == 0 })
	return f.Copy.Apply(ctx, changes, p)
}

// wrongSearch makes a worker that handles messages by do. follow wraps the index as it follows the table; nil does not
// follow it.
func wrongSearch(do func(context.Context, *searchproc.Index, *index.States, rig.Key) error,
	follow func(follow.Copy) follow.Copy) rig.VariantRun {
	return func(ctx context.Context, storage *workers.Storage, app *workers.App, s rig.WorkerSettings) (err error) {
		w, err := index.OpenStates(storage, s)
		if err != nil {
			return err
		}
		x, err := search.OpenIndex(s)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, x.Close()) }()
		if err := x.Build(ctx); err != nil {
			return err
		}
		if follow != nil {
			app.FollowTable("search-index", s.Current, follow(x))
		}
		workers.Queue(app, "records", func(ctx context.Context, m *workers.Message[rig.KeyMessage]) error {
			return do(ctx, x, &w, rig.Key{Partition: m.Body.PartitionKey, Row: m.Body.RowKey})
		}, s.Options()...)
		stop, err := search.Serve(x, s.Folder)
		if err != nil {
			return err
		}
		defer stop()
		return app.Run(ctx)
	}
}

func TestSearch(t *testing.T) {
	t.Parallel()
	a := testaccount.Open(t)
	c := rig.Config{ConnectionString: a.ConnectionString, Worker: variantWorker("search"), Records: check.Size(70, 180),
		Pairs: true, SamplePairs: sample(), Seed: seed(t), Patience: patience}
	report, err := search.Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Rows) != len(search.Points())+sample() {
		t.Errorf("%d rounds, want %d", len(report.Rows), len(search.Points())+sample())
	}
	half := 0
	for _, row := range report.Rows {
		for _, crash := range row.Crashes {
			half += crash.Both
		}
	}
	if half == 0 {
		t.Error("no kill left the index behind the table: they prove nothing")
	}
}

// On services without a change log, messages feed the index. All steps can be reached that way, too.
func TestSearchByKeys(t *testing.T) {
	t.Parallel()
	a := testaccount.Open(t)
	c := rig.Config{ConnectionString: a.ConnectionString, Worker: variantWorker("search"), Records: check.Size(60, 90),
		Seed: seed(t), Patience: patience}
	report, err := rig.Demonstrate(t.Context(), c, search.Open(a.ConnectionString, search.ByKeys))
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Rows) != len(search.Points()) || !strings.Contains(report.Summary, "fed by keys") {
		t.Errorf("%d rounds: %s", len(report.Rows), report.Summary)
	}
}

func TestWrongSearchWorkersAreCaught(t *testing.T) {
	t.Parallel()
	a := testaccount.Open(t)
	for variant, point := range map[string]string{
		"search: index before the change": "search-index/after-commit",
		"search: deletions ignored":       "workers/before-delete-message",
	} {
		t.Run(variant, func(t *testing.T) {
			t.Parallel()
			c := rig.Config{ConnectionString: a.ConnectionString, Worker: variantWorker(variant), Points: []string{point},
				Records: 90, Seed: 1, Patience: patience,
				StuckAfter: stuckAfter, Plain: true}
			if _, err := search.Run(t.Context(), c); !errors.Is(err, rig.ErrInvariant) ||
				!strings.Contains(fmt.Sprint(err), "stuck") {
				t.Fatalf("got %v, want %v saying that work is stuck", err, rig.ErrInvariant)
			}
		})
	}
}
