package serve

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/workerproc"
	"github.com/lazuli-storage/lazuli/internal/server/config"
)

// The default folder is one for each table, service and account, and nothing is left in the working directory.
func TestSearchFolder(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("TMPDIR", t.TempDir())
	c := config.Default()
	c.Location, c.Roles.SearchTable = "data", "People"
	folder := func(f workerproc.SearchFolder) string {
		path, remove, err := f()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := remove(); err != nil {
				t.Error(err)
			}
		})
		return path
	}
	if got, want := folder(workerproc.ServerSearchFolder(&c, "shop")),
		filepath.Join("data", "search-index", "shop", "people"); got != want {
		t.Errorf("of a server: %q, want %q", got, want)
	}
	memory := c
	memory.InMemory = true
	temporary, remove, err := workerproc.ServerSearchFolder(&memory, "shop")()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(temporary); err != nil {
		t.Error(err)
	}
	if err := remove(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(temporary); !os.IsNotExist(err) {
		t.Errorf("the temporary folder is left: %v", err)
	}

	const a, b = "AccountName=a;AccountKey=YQ==;TableEndpoint=http://127.0.0.1:1/a",
		"AccountName=b;AccountKey=YQ==;TableEndpoint=http://127.0.0.1:1/b"
	seen := map[string]string{}
	for name, path := range map[string]string{"a": folder(workerproc.WorkerSearchFolder(c.Roles, a)),
		"b": folder(workerproc.WorkerSearchFolder(c.Roles, b))} {
		if filepath.Dir(filepath.Dir(filepath.Dir(path))) != os.Getenv("XDG_CACHE_HOME") || seen[path] != "" {
			t.Errorf("of a worker for the account %s: %q", name, path)
		}
		seen[path] = name
	}
	if got := folder(workerproc.WorkerSearchFolder(c.Roles, a)); seen[got] != "a" {
		t.Errorf("another folder at the next start: %q", got)
	}
	c.Roles.SearchFolder = "mine"
	for _, f := range []workerproc.SearchFolder{workerproc.ServerSearchFolder(&memory, "shop"),
		workerproc.WorkerSearchFolder(c.Roles, a)} {
		memory.Roles.SearchFolder = "mine"
		if got := folder(f); got != "mine" {
			t.Errorf("the configured folder is %q", got)
		}
	}
}
