package demo

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/large"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/logdata"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/rig"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/testaccount"
	"github.com/lazuli-storage/lazuli/workers"
	"github.com/lazuli-storage/lazuli/workers/roles/logstore"
)

// otherVariants are the workers of the large-entity and log-storage roles. All but two are wrong, each in its own way.
var otherVariants = map[string]rig.VariantRun{}

func init() {
	maps.Copy(otherVariants, map[string]rig.VariantRun{
		"large-entity": func(ctx context.Context, storage *workers.Storage, app *workers.App, s rig.WorkerSettings) error {
			return large.RunWorker(ctx, storage, app, s)
		},
		"large-entity: no condition": large.Naive(func(ctx context.Context, w *large.NaiveStore, c large.Command) error {
			return w.Steps(ctx, c, w.Blobs, w.Entity)
		}, true),
		"log-storage": func(ctx context.Context, storage *workers.Storage, app *workers.App, s rig.WorkerSettings) error {
			w, err := logstore.NewWriter(storage, s.Container, logstore.WithFlushEvery(50*time.Millisecond))
			if err != nil {
				return err
			}
			logstore.Register(app, "log-storage", w, s.Options()...)
			return errors.Join(app.Run(ctx), w.Close(context.Background()))
		},
		"log-storage: untrue metadata": logdata.Naive(
			func(ctx context.Context, w *logdata.NaiveWriter, m workers.QueueMessage, r logstore.Record) error {
				return w.Write(ctx, r, uuid.NewString(), r.Time.Add(-24*time.Hour))
			}),
	})
}

// sample is the number of pairs that a test run visits; LAZULI_DEMO_SEED chooses others.
func sample() int { return check.Size(1, 2) }

func seed(t *testing.T) uint64 {
	t.Helper()
	n := uint64(1)
	if s := os.Getenv("LAZULI_DEMO_SEED"); s != "" {
		if _, err := fmt.Sscan(s, &n); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

func TestLargeEntity(t *testing.T) {
	t.Parallel()
	a := testaccount.Open(t)
	c := rig.Config{ConnectionString: a.ConnectionString, Worker: variantWorker("large-entity"),
		Records: check.Size(100, 300),
		Pairs:   true, SamplePairs: sample(), Seed: seed(t), Patience: patience}
	report, err := large.Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Rows) != len(large.Points())+sample() {
		t.Errorf("%d rounds", len(report.Rows))
	}
	orphaned := 0
	for _, row := range report.Rows {
		for _, crash := range row.Crashes {
			orphaned += crash.Orphaned
		}
	}
	if orphaned == 0 {
		t.Error("no kill left an orphan: they prove nothing")
	}
}

func TestLogStorage(t *testing.T) {
	t.Parallel()
	records := check.Size(200, 600)
	a := testaccount.Open(t)
	c := rig.Config{ConnectionString: a.ConnectionString, Worker: variantWorker("log-storage"), Records: records,
		Pairs:       true,
		SamplePairs: sample(), Seed: seed(t), Patience: patience}
	report, err := logdata.Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Rows) != len(logdata.Points())+sample() || report.Records != records {
		t.Errorf("%d rounds, %d records", len(report.Rows), report.Records)
	}
}

// The demonstrations must notice every worker that does the steps wrongly, and say what is wrong.
func TestOtherWrongWorkersAreCaught(t *testing.T) {
	t.Parallel()
	a := testaccount.Open(t)
	for variant, c := range map[string]struct{ point, says string }{
		"large-entities/entity-first":        {"large-entity/before-blob", "lost at that moment"},
		"large-entities/blobs-deleted-first": {"large-entity/after-remove-blob", "lost at that moment"},
		"large-entity: no condition":         {rig.Frozen, "orphans are left"},
		"large-entities/no-sweep":            {"large-entity/after-blob", "orphans are left"},
		"log-data/message-deleted-first":     {"log-storage/before-write", "lines are lost"},
		"log-data/new-id":                    {"log-storage/after-write", "shown twice"},
		"log-data/one-name":                  {"workers/after-delete-message", "lines are lost"},
		"log-storage: untrue metadata":       {"workers/before-delete-message", "lines are lost"},
	} {
		t.Run(variant, func(t *testing.T) {
			t.Parallel()
			config := rig.Config{ConnectionString: a.ConnectionString, Worker: variantWorker(variant), Points: []string{c.point},
				Records: 90, Seed: 1, Patience: patience, Plain: true}
			if c.says == "orphans are left" { // For good: however long one waits.
				config.StuckAfter = stuckAfter
			}
			run := large.Run
			if strings.HasPrefix(variant, "log-") {
				run = logdata.Run
			}
			if _, err := run(t.Context(), config); !errors.Is(err, rig.ErrInvariant) ||
				!strings.Contains(fmt.Sprint(err), c.says) {
				t.Fatalf("got %v, want %v saying %q", err, rig.ErrInvariant, c.says)
			}
		})
	}
}
