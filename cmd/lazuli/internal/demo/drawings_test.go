package demo

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lazuli-storage/lazuli/lazulitest"
)

var update = flag.Bool("update", false, "write the drawings of docs/images/patterns from runs")

// drawings tell the stories of the demonstrations, with the variant of their workers.
func drawings() map[string]func(context.Context, Config) (*Story, error) {
	list := map[string]func(context.Context, Config) (*Story, error){}
	add := func(name, variant string, demonstrate func(context.Context, Config) (*Report, error)) {
		list[name] = func(ctx context.Context, c Config) (*Story, error) {
			c.Worker = variantWorker(variant)
			report, err := demonstrate(ctx, c)
			if err != nil {
				return nil, err
			}
			return report.Story, nil
		}
	}
	add("inter-partition-index", "table-index", Index)
	add("eventual-transaction", "correct", Archive)
	add("index-entities", "table-index", IndexEntities)
	add("large-entities", "large-entity", LargeEntity)
	add("log-data", "log-storage", LogStorage)
	add("materialised-view", "table-index", View)
	add("outbox", "outbox", Outbox)
	add("jobs", "jobs", Jobs)
	add("search", "search", Search)
	add("lake", "lake", Lake)
	for i := range Designs {
		add(Designs[i].Name, "design", Designs[i].Demonstrate)
	}
	list["saga"] = func(ctx context.Context, c Config) (*Story, error) {
		// The third order is refused.
		report, err := Saga(ctx, SagaConfig{ConnectionString: c.ConnectionString, Worker: sagaVariantWorker(false),
			Orders: 3, Story: 3, Seed: c.Seed, Patience: c.Patience, Step: c.Step, visibility: 20 * time.Second})
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
			c := Config{Seed: 1, Patience: patience}
			c.Story, c.Records, c.Lease = 1, mistakeItems, 20*time.Second
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

// Requests that are under way at the same time are in one order, whichever of them came first.
func TestByCause(t *testing.T) {
	t.Parallel()
	event := func(from, to, text, cause, message string) Event {
		return Event{From: from, To: to, Text: text, cause: cause, message: message}
	}
	put := event(storyProgram, "queue", "puts a message", "", "")
	kill := Event{From: "worker 1", Text: "is KILLED", Kill: true}
	first := event("worker 1", "queue", receivesText, "a", "a")
	a := []Event{event("worker 2", "queue", receivesText, "a", "a"),
		event("worker 2", "other", "puts a message", "a", "b"),
		event("worker 2", "queue", deletesText, "a", "a")}
	b := []Event{event("worker 2", "other", receivesText, "b", "b"), event("worker 2", "table", "writes", "b", ""),
		event("worker 2", "table", "writes", "b", ""), event("worker 2", "other", deletesText, "b", "b")}
	sweep := event("worker 2", "table", "deletes", "", "")
	want := "a a a b b b  "
	for _, events := range [][]Event{
		slices.Concat([]Event{put, first, kill}, a, b, []Event{sweep}),
		{put, first, kill, sweep, a[0], a[1], b[0], b[1], a[2], b[2], b[3]},
		{put, first, kill, a[0], a[1], b[0], sweep, b[1], b[2], b[3], a[2]},
	} {
		s := Story{Events: events}
		got := ""
		for _, e := range s.byCause()[3:] {
			got += e.cause + " "
		}
		if got != want || s.byCause()[4].message != "b" || s.byCause()[7].Times != 1 {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
