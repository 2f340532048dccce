package demo

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/design"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/eventual"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/index"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/lake"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/large"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/lesson"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/logdata"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/orders"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/outbox"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/rig"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/search"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/story"
	"github.com/lazuli-storage/lazuli/lazulitest"
)

var update = flag.Bool("update", false, "write the drawings of docs/images/patterns from runs")

// drawings tell the stories of the demonstrations, with the variant of their workers.
func drawings() map[string]func(context.Context, rig.Config) (*story.Story, error) {
	list := map[string]func(context.Context, rig.Config) (*story.Story, error){}
	add := func(name, variant string, demonstrate func(context.Context, rig.Config) (*rig.Report, error)) {
		list[name] = func(ctx context.Context, c rig.Config) (*story.Story, error) {
			c.Worker = variantWorker(variant)
			report, err := demonstrate(ctx, c)
			if err != nil {
				return nil, err
			}
			return report.Story, nil
		}
	}
	add("inter-partition-index", "table-index", index.RunCopies)
	add("eventual-transaction", "correct", eventual.Run)
	add("index-entities", "table-index", index.RunLists)
	add("large-entities", "large-entity", large.Run)
	add("log-data", "log-storage", logdata.Run)
	add("materialised-view", "table-index", index.RunCounts)
	add("outbox", "outbox", outbox.Run)
	add("jobs", "jobs", outbox.RunJobs)
	add("search", "search", search.Run)
	add("lake", "lake", lake.Run)
	for i := range design.Designs {
		add(design.Designs[i].Name, "design", design.Designs[i].Demonstrate)
	}
	list["saga"] = func(ctx context.Context, c rig.Config) (*story.Story, error) {
		// The third order is refused.
		report, err := orders.Run(ctx, orders.Config{ConnectionString: c.ConnectionString, Worker: sagaVariantWorker(false),
			Orders: 3, Story: 3, Seed: c.Seed, Patience: c.Patience, Step: c.Step, Visibility: 20 * time.Second})
		if err != nil {
			return nil, err
		}
		return report.Story, nil
	}
	return list
}

// The drawings of docs/patterns.md are what a run of the demonstration does. What could differ from run to run does
// not: requests that are under way at the same time are drawn in the order of their causes, the service's clock jumps
// beyond all leases at the kill, and a sweeper waits until no message is left.
func TestDrawings(t *testing.T) {
	t.Parallel()
	all := drawings()
	for _, name := range Names {
		if all[name] == nil {
			t.Errorf("%s has no drawing", name)
		}
	}
	for name, tell := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			began, jump := time.Now(), atomic.Int64{}
			options := []lazulitest.Option{lazulitest.WithClock(func() time.Time {
				return began.Add(time.Since(began) + time.Duration(jump.Load()))
			})}
			c := rig.Config{Seed: 1, Patience: patience}
			c.Story, c.Records, c.Lease = 1, lesson.MistakeItems, 20*time.Second
			switch name {
			case "large-entities":
				c.Story = 4 // The first one has two blobs, which are written at the same time.
			case "lake":
				options = append(options, lazulitest.WithHierarchicalNamespace())
			}
			c.ConnectionString = lazulitest.Start(t, options...).ConnectionString()
			c.Step = func(context.Context, string) error {
				jump.Add(int64(31 * time.Second)) // An outbox's reminder is hidden for 30 s.
				return nil
			}
			story, err := tell(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join("../../../../docs/images/patterns", fmt.Sprintf("%02d-%s.svg", Number(name), name))
			got := story.SVG(false)
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("the drawing is not current: go test ./cmd/lazuli/internal/demo -run TestDrawings -update\n%s", diff)
			}
		})
	}
}
