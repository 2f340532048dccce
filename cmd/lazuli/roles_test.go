package main

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/cmd/internal/searchproc"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/workerproc"
	"github.com/lazuli-storage/lazuli/internal/server/config"
	"github.com/lazuli-storage/lazuli/lazulitest"
	"github.com/lazuli-storage/lazuli/tables"
	"github.com/lazuli-storage/lazuli/workers"
	"github.com/lazuli-storage/lazuli/workers/roles/archive"
	"github.com/lazuli-storage/lazuli/workers/roles/largeentity"
)

// member is a large entity that all roles work on.
type member struct {
	Name, Party string
	Scan        []byte
}

// Every pair of roles works on one table: a large entity keeps its blobs, wherever it is moved, and indexes follow it.
func TestPairsOfRolesOnOneTable(t *testing.T) {
	t.Parallel()
	l := lazulitest.Start(t)
	for i, one := range config.RoleNames {
		for _, other := range config.RoleNames[i:] {
			for _, to := range []string{"table:Archive", "container:archived"} {
				pair := slices.Compact([]string{one, other})
				if !slices.Contains(pair, "archive") && to != "table:Archive" {
					continue
				}
				t.Run(strings.Join(pair, "+")+"/"+to, func(t *testing.T) {
					t.Parallel()
					onOneTable(t, l.Account(t), pair, to)
				})
			}
		}
	}
}

func onOneTable(t *testing.T, a *lazulitest.Account, roles []string, to string) {
	c := config.Default().Roles
	c.ArchiveFrom, c.LargeEntityTable, c.SearchTable, c.IndexFrom, c.IndexBy = "Members", "Members", "Members", "Members",
		"Party"
	c.ArchiveTo, c.SearchFields, c.LargeEntityAge = to, "Name:text", time.Nanosecond
	quiet := slog.New(slog.DiscardHandler)
	app := workers.New(workers.Config{Storage: a.Storage, Logger: quiet})
	set := &workerproc.Roles{App: app, Storage: a.Storage, Config: c, Log: quiet, Creates: true,
		SearchFolder: func() (string, func() error, error) {
			return t.TempDir(), func() error { return nil }, nil
		}, SearchTables: func(x *searchproc.Config) { x.ConnectionString = a.ConnectionString() }}
	if err := set.Add(t.Context(), roles); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = set.Close(context.Background()) })
	has := func(role string) bool { return slices.Contains(roles, role) }

	store := must(largeentity.New[member](a.Storage, "Members", c.LargeEntityContainer))(t)
	if err := store.Create(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := member{"Ada", "Whig", bytes.Repeat([]byte("scan"), 50_000)}
	key := func(i int) largeentity.Key { return largeentity.Key{PartitionKey: "it's", RowKey: fmt.Sprint(i)} }
	a.Run(app)
	for i := range 2 {
		if _, err := store.Put(t.Context(), key(i), want); err != nil {
			t.Fatal(err)
		}
	}
	if has("archive") {
		a.Put(c.ArchiveQueue, archive.Key(key(0)))
	}
	a.Drain()
	sweep := func(table string) {
		t.Helper()
		sweeper := must(largeentity.NewSweeper(a.Storage, table, c.LargeEntityContainer, largeentity.WithAge(0)))(t)
		if err := sweeper.Create(t.Context()); err != nil {
			t.Fatal(err)
		}
		must(sweeper.Sweep(t.Context()))(t)
	}
	sweep("Members")
	same := func(table string, i int) {
		t.Helper()
		got, err := must(largeentity.New[member](a.Storage, table, c.LargeEntityContainer))(t).Get(t.Context(), key(i))
		if err != nil || got.Value.Name != want.Name || !bytes.Equal(got.Value.Scan, want.Scan) {
			t.Errorf("entity %d in %s: %v", i, table, err)
		}
	}
	same("Members", 1)
	switch {
	case !has("archive"):
		same("Members", 0)
	case to == "table:Archive":
		a.RequireNoEntity("Members", key(0).PartitionKey, key(0).RowKey)
		sweep("Archive")
		same("Archive", 0)
	default:
		a.RequireNoEntity("Members", key(0).PartitionKey, key(0).RowKey)
		var e tables.Entity
		content := make([]byte, 1<<20)
		name := "=it%27s/=0.json"
		n := must(a.Blobs.DownloadBuffer(t.Context(), "archived", name, content, nil))(t)
		if err := e.UnmarshalJSON(content[:n]); err != nil || !bytes.Equal(e.Properties["Scan"].([]byte), want.Scan) ||
			e.Properties[largeentity.PointerProperty] != nil {
			t.Errorf("the blob has %v: %v", e.Properties, err)
		}
	}
	if has("table-index") {
		copies := 0
		for e, err := range must(tables.New[tables.Entity](a.Tables, c.IndexTo))(t).Query().AllowScan().All(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if copies++; e.Properties["Name"] != want.Name || e.Properties[largeentity.PointerProperty] != nil {
				t.Errorf("a copy is %v", e.Properties)
			}
		}
		if wanted := 2 - map[bool]int{true: 1}[has("archive")]; copies != wanted {
			t.Errorf("%d copies, want %d", copies, wanted)
		}
	}
	for _, f := range app.Stats() {
		if f.Poisoned > 0 || f.Failed > 0 {
			t.Errorf("%+v", f)
		}
	}
}

// Roles that would write one table against each other are refused before they start.
func TestRolesThatConflict(t *testing.T) {
	t.Parallel()
	for says, change := range map[string]func(*config.Roles){
		"archive-from and archive-to are the same": func(c *config.Roles) { c.ArchiveTo = "table:current" },
		"archive-to is the table CurrentIndex":     func(c *config.Roles) { c.ArchiveTo = "table:CurrentIndex" },
		"archive-from is the table CurrentIndex":   func(c *config.Roles) { c.ArchiveFrom = "currentindex" },
		"large-entity-table is the table":          func(c *config.Roles) { c.LargeEntityTable = "CurrentIndex" },
	} {
		c := config.Default().Roles
		change(&c)
		if err := c.Conflict(config.RoleNames); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
	if c := config.Default().Roles; c.Conflict(config.RoleNames) != nil {
		t.Error(c.Conflict(config.RoleNames))
	}
}

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}
