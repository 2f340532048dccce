package roles_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/testaccount"
	"github.com/lazuli-storage/lazuli/tables"
	"github.com/lazuli-storage/lazuli/workers"
	"github.com/lazuli-storage/lazuli/workers/roles/tableindex"
)

func byTown(e *tables.Entity) (tables.Key, bool) {
	town, err := tables.Value[string](e, "Town")
	return tables.Key{PartitionKey: town, RowKey: "people"}, err == nil
}

func projections() map[string]tableindex.Projection {
	return map[string]tableindex.Projection{
		"copies": tableindex.Copies(func(e *tables.Entity) (tables.Key, bool) {
			k, ok := byTown(e)
			return tables.Key{PartitionKey: k.PartitionKey, RowKey: e.PartitionKey + " " + e.RowKey}, ok
		}),
		"lists": tableindex.Lists(byTown),
		"counts": tableindex.Counts(func(e *tables.Entity) (tables.Key, bool) {
			return tables.Key{PartitionKey: e.PartitionKey, RowKey: "towns"}, true
		},
			func(k tables.Key) []tables.Expr { return []tables.Expr{tables.PartitionKey.Eq(k.PartitionKey)} },
			func(e *tables.Entity) string { town, _ := tables.Value[string](e, "Town"); return town }),
	}
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// fixture is a source of people, and a role.
type fixture struct {
	*testaccount.Account
	source *tables.Table[tables.Entity]
	role   *tableindex.Role
	target string
}

func newFixture(t *testing.T, p tableindex.Projection) *fixture {
	t.Helper()
	a := testaccount.Open(t)
	f := &fixture{Account: a, target: a.Table("Target")}
	var err error
	from := a.Table("Source")
	f.source, err = tables.New[tables.Entity](a.Tables, from)
	ok(t, err)
	f.role, err = tableindex.New(a.Storage, from, f.target, p)
	ok(t, err)
	return f
}

func person(n int, town string) *tables.Entity {
	return &tables.Entity{PartitionKey: fmt.Sprint("p", n%2), RowKey: fmt.Sprint(n),
		Properties: map[string]any{"Town": town, "Score": 5.0}}
}

// The target follows inserts, moves and deletions of the source, from the changes alone.
func TestChangesKeepTheTargetInStep(t *testing.T) {
	t.Parallel()
	for name, p := range projections() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, p)
			ctx := t.Context()
			for n := range 6 {
				ok(t, f.source.Insert(ctx, person(n, "Ulm")))
			}
			app := workers.New(workers.Config{Storage: f.Storage, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
			f.role.Register(app, "index")
			ok(t, app.Start(ctx))
			t.Cleanup(func() { _ = app.Stop(context.Background()) })
			inStep := func(what string) {
				t.Helper()
				var last any
				for deadline := time.Now().Add(check.Patience); time.Now().Before(deadline); {
					differences, err := f.role.Verify(ctx)
					if err == nil && len(differences) == 0 {
						return
					}
					last = fmt.Sprint(differences, err)
					select {
					case <-time.After(20 * time.Millisecond):
					case <-ctx.Done():
					}
				}
				t.Fatalf("%s: %v", what, last)
			}
			inStep("what was there")
			for n := range 3 {
				ok(t, f.source.InsertOrReplace(ctx, person(n, "Bonn")))
			}
			ok(t, f.source.DeleteKey(ctx, tables.Key{PartitionKey: "p1", RowKey: "5"}))
			ok(t, f.source.Insert(ctx, person(7, "Bonn")))
			inStep("after changes")
		})
	}
}

// A late attempt, with the targets of a state that is long gone, changes nothing for the worse; what only a sweep can
// find, it removes.
func TestLateAttemptsAndSweep(t *testing.T) {
	t.Parallel()
	for name, p := range projections() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, p)
			ctx := t.Context()
			old, now := person(1, "Ulm"), person(1, "Bonn")
			key := tables.Key{PartitionKey: "p1", RowKey: "1"}
			ok(t, f.source.Insert(ctx, old))
			first := f.role.Message(key, nil, old)
			ok(t, f.role.Handle(ctx, key, first.Targets))
			now.ETag = ""
			ok(t, f.source.Replace(ctx, now))
			second := f.role.Message(key, old, now)
			ok(t, f.role.Handle(ctx, key, second.Targets))
			ok(t, f.role.Handle(ctx, key, first.Targets)) // comes late
			ok(t, f.role.Handle(ctx, key, second.Targets))
			if d, err := f.role.Verify(ctx); len(d) > 0 || err != nil {
				t.Fatalf("after a late attempt: %v, %v", d, err)
			}
			// A writer that slept leaves a target without a source.
			target, err := tables.New[tables.Entity](f.Tables, f.target)
			ok(t, err)
			if name == "copies" {
				ok(t, target.Insert(ctx, &tables.Entity{PartitionKey: "Ulm", RowKey: "p1 1",
					Properties: map[string]any{"Town": "Ulm", "Score": 5.0, tableindex.SourcePartition: "p1",
						tableindex.SourceRow: "1"}}))
				if d, err := f.role.Verify(ctx); len(d) != 1 || err != nil {
					t.Fatalf("a leftover is not noticed: %v, %v", d, err)
				}
				if n, err := f.role.Sweep(ctx); n != 1 || err != nil {
					t.Errorf("swept %d, %v", n, err)
				}
			}
			if n, err := f.role.Sweep(ctx); n != 0 || err != nil {
				t.Errorf("swept %d where all is right, %v", n, err)
			}
			if d, err := f.role.Verify(ctx); len(d) > 0 || err != nil {
				t.Errorf("at the end: %v, %v", d, err)
			}
		})
	}
}
