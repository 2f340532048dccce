package searchindex_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/tables"
	"github.com/lazuli-storage/lazuli/workers/roles/searchindex"
)

// A step that fails, at each point and hit, is repeated, and the index becomes equal to the table. The fault plan
// belongs to the process, so the test is not parallel.
func TestEveryStepCanFail(t *testing.T) {
	for _, point := range searchindex.Points() {
		for hit := 1; hit <= 2; hit++ {
			t.Run(fmt.Sprint(filepath.Base(point), " ", hit), func(t *testing.T) {
				f := newFixture(t)
				for n := range 5 {
					ok(t, f.source.Insert(t.Context(), person(fmt.Sprint(n), "Ada", "London", 1.0)))
				}
				plan := fault.NewPlan(fault.Rule{Point: fault.Name(point), On: hit, Do: fault.Fail(fault.ErrInjected)})
				defer fault.Activate(plan)()
				f.follow(t)
				f.settled(t, 5)
				ok(t, f.index.Rebuild())
				ok(t, f.source.DeleteKey(t.Context(), tables.Key{PartitionKey: "people", RowKey: "3"}))
				f.settled(t, 4)
				if plan.Hits(fault.Name(point)) < hit {
					t.Errorf("the point was passed %d times", plan.Hits(fault.Name(point)))
				}
			})
		}
	}
}

// A folder has one user, whose lock ends with it.
func TestFolderIsLocked(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	config := searchindex.Config{Storage: f.Storage, Table: f.table, Folder: f.folder, Fields: peopleFields}
	if _, err := searchindex.Open(config); !errors.Is(err, searchindex.ErrInUse) {
		t.Errorf("a second Open: %v", err)
	}
	ok(t, f.source.Insert(t.Context(), person("1", "Ada", "London", 1.0)))
	ok(t, f.index.Build(t.Context()))
	if _, err := searchindex.OpenFolder(f.folder, nil); !errors.Is(err, searchindex.ErrInUse) {
		t.Errorf("OpenFolder of a folder in use: %v", err)
	}
	ok(t, f.index.Close())
	x, err := searchindex.OpenFolder(f.folder, nil)
	ok(t, err)
	defer x.Close()
	if r, err := x.Search(t.Context(), searchindex.Query{Text: "ada"}); err != nil || r.Total != 1 || !r.Complete {
		t.Errorf("a search in the folder: %+v, %v", r, err)
	}
	if _, err := x.Verify(t.Context()); err == nil {
		t.Error("an index without a table was verified")
	}
}

func TestFolderWithoutAnIndex(t *testing.T) {
	t.Parallel()
	empty := filepath.Join(t.TempDir(), "none")
	if _, err := searchindex.OpenFolder(empty, nil); !errors.Is(err, searchindex.ErrNoIndex) {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(empty); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder was created: %v", err)
	}
	newer := t.TempDir()
	ok(t, os.WriteFile(filepath.Join(newer, "state.json"), []byte(`{"version":2,"serving":"x"}`), 0o600))
	if _, err := searchindex.OpenFolder(newer, nil); !errors.Is(err, searchindex.ErrNewer) {
		t.Errorf("%v", err)
	}
}
