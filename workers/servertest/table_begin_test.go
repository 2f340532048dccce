package servertest

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/test/testaccount"
	"github.com/lazuli-storage/lazuli/workers"
)

// beginnings is the number of times that each case runs: what begins too late loses changes in some runs only.
const beginnings = 20

// A table trigger misses nothing that is written after Start has returned: not the first entity, and not one of a table
// that is created later.
func TestTableTriggerMissesNothing(t *testing.T) {
	t.Parallel()
	lazuliOnly(t)
	for name, options := range map[string][]workers.TableOption{
		"shared": nil, "in order": {workers.InOrder()}, "existing": {workers.WithExisting(true)},
		"existing in order": {workers.WithExisting(true), workers.InOrder()},
	} {
		for _, c := range []struct {
			name     string
			exists   bool
			entities int
		}{{"table exists", true, 1}, {"table created later", false, 15}} {
			t.Run(name+"/"+c.name, func(t *testing.T) {
				t.Parallel()
				a := testaccount.Open(t)
				for i := range beginnings {
					missesNothing(t, a, a.Table(fmt.Sprint("Begin", i)), c.exists, c.entities, options)
				}
			})
		}
	}
}

func missesNothing(t *testing.T, a *testaccount.Account, name string, exists bool, entities int,
	options []workers.TableOption) {
	t.Helper()
	client := a.Tables.NewClient(name)
	if !exists {
		if _, err := client.Delete(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	}
	var mu sync.Mutex
	got := map[string]int{}
	app := newApp(a)
	workers.Table(app, name, func(ctx context.Context, c *workers.Change[row]) error {
		mu.Lock()
		defer mu.Unlock()
		got[string(c.Raw.Change)+" "+c.Raw.RowKey]++
		return nil
	}, append([]workers.TableOption{workers.WithTable(name)}, options...)...)
	if err := app.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := app.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	if !exists {
		if _, err := client.CreateTable(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	}
	for i := range entities {
		upsert(t, client, "p", fmt.Sprint(i), i)
	}
	if err := app.WaitIdle(t.Context()); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	for i := range entities {
		if got[fmt.Sprint("insert ", i)] == 0 {
			t.Errorf("%d of %d changes: %v", len(got), entities, got)
			return
		}
	}
}
