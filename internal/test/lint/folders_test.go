package lint

import (
	"slices"
	"strings"
	"testing"
)

// Folders that data is kept in are made by disk.MkdirAll, since a new folder can disappear in a power failure, with all
// that is in it, unless its parent is synced.
func TestNewFoldersAreSynced(t *testing.T) {
	synced := []string{
		"internal/storage/disk/disk.go", // disk.MkdirAll itself
		// syncs the folder and its parent with each file: workers do not import storage packages
		"workers/roles/archive/target.go",
		"cmd/lazuli-lab/internal/nodebench/share_linux.go", // a group of processes, which is on no disk
		"internal/devcert/devcert.go",                      // certificates, which can be made again
		"cmd/lazuli/internal/demo/", "internal/test/",      // nothing in them is kept
	}
	eachSource(t, func(path, text string) {
		if strings.HasSuffix(path, "_test.go") ||
			slices.ContainsFunc(synced, func(p string) bool { return strings.HasPrefix(path, p) }) {
			return
		}
		for _, call := range []string{"os.MkdirAll(", "os.Mkdir("} {
			if strings.Contains(text, call) {
				t.Errorf("%s calls %s...): use disk.MkdirAll, which makes the folder durable", path, call)
			}
		}
	})
}
