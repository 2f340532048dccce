package secretfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/test/fusedisk"
)

// Whatever fails, a file has no content of which only a part was written: not even if the part cannot be removed.
func TestDiskThatFails(t *testing.T) {
	t.Parallel()
	disk := fusedisk.Mount(t)
	path := filepath.Join(disk.Dir, "key")
	for name, write := range map[string]func(string, []byte) error{"Write": Write, "Create": Create} {
		for _, kind := range []fusedisk.Kind{fusedisk.Write, fusedisk.Sync, fusedisk.Rename} {
			disk.Fail(fusedisk.Failure{Err: syscall.ENOSPC, Kinds: []fusedisk.Kind{kind, fusedisk.Remove}})
			err := write(path, []byte("x"))
			if err == nil && !(name == "Create" && kind == fusedisk.Rename) {
				t.Errorf("%s, when a %s fails: no error", name, kind)
			}
			if p, readErr := os.ReadFile(path); err != nil && !errors.Is(readErr, fs.ErrNotExist) && string(p) != "x" {
				t.Errorf("%s, when a %s fails: the file has %q, %v", name, kind, p, readErr)
			}
			disk.Heal()
			_ = os.Remove(path)
		}
	}
}
