package funcapp

import (
	"os"
	"path/filepath"
	"testing"
)

// A change is seen when it is complete, and files that are not the app's own are not looked at.
func TestFuncWatch(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("a.js", "1")
	state, err := filesState(dir)
	if err != nil {
		t.Fatal(err)
	}
	write("node_modules/x/index.js", "1")
	write(StorageFolder+"/blobs.db", "1")
	write("out.log", "1")
	if again, err := filesState(dir); err != nil || again != state {
		t.Fatal("folders that are not the app's count", err)
	}
	seen := make(chan uint64, 1)
	go func() {
		next, _ := changed(t.Context(), dir, state)
		seen <- next
	}()
	write("a.js", "22")
	select {
	case next := <-seen:
		if next == state {
			t.Error("the change was not seen")
		}
	case <-t.Context().Done():
		t.Fatal("the change was not seen")
	}
}
