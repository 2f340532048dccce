package disk_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/storage/disk"
	"github.com/lazuli-storage/lazuli/internal/test/faultdisk"
)

// A copy replaces its original after a rename, or after the original is removed: its content is synced by then, and a
// copy that could not be synced is an error.
func TestCopiesAreSynced(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	if err := os.WriteFile(from, []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	fsys := &faultdisk.FS{}
	var kinds []faultdisk.Kind
	fsys.SetHook(func(op faultdisk.Op) error {
		kinds = append(kinds, op.Kind)
		return nil
	})
	if err := disk.CopyFile(fsys, from, to); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(to); string(got) != "content" || err != nil {
		t.Errorf("the copy has %q, %v", got, err)
	}
	if kinds[len(kinds)-1] != faultdisk.Sync {
		t.Errorf("the copy ended with %s, want a sync; %v", kinds[len(kinds)-1], kinds)
	}
	if err := disk.CopyFile(fsys, from, to); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a copy over a file: %v, want ErrExist", err)
	}
	broken := errors.New("input/output error")
	fsys.FailNth(1, broken, faultdisk.Sync)
	if err := disk.CopyFile(fsys, from, to+"2"); !errors.Is(err, broken) {
		t.Errorf("a sync that fails: %v", err)
	}
	if slices.Contains(kinds, faultdisk.SyncDir) {
		t.Error("CopyFile syncs the folder; then its comment is wrong")
	}
}
