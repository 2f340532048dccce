package backup_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/server/backup"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// A place whose disk is not mounted is refused, at the start as well as by a schedule whose disk goes away: a backup on
// the disk of the system would be lost with it.
func TestAPlaceNeedsItsParent(t *testing.T) {
	t.Parallel()
	disk := filepath.Join(t.TempDir(), "disk")
	path := filepath.Join(disk, "backups")
	if _, err := backup.Open(path, ""); !errors.Is(err, backup.ErrNoFolder) {
		t.Errorf("Open: %v, want ErrNoFolder", err)
	}
	check.OK(t, os.Mkdir(disk, 0o700))
	place, err := backup.Open(path, "")
	check.OK(t, err)
	exists, err := place.Exists(t.Context())
	check.OK(t, err)
	if exists {
		t.Error("the place exists before the first backup")
	}
	_, unlock, err := place.Lock(t.Context())
	check.OK(t, err)
	check.OK(t, unlock())
	if exists, err := place.Exists(t.Context()); err != nil || !exists {
		t.Errorf("after the first use: exists %v, %v", exists, err)
	}
	check.OK(t, os.RemoveAll(disk))
	if _, _, err := place.Lock(t.Context()); !errors.Is(err, backup.ErrNoFolder) {
		t.Errorf("Lock without the disk: %v, want ErrNoFolder", err)
	}
	if _, err := os.Stat(disk); err == nil {
		t.Error("the folder of the disk was created")
	}
}
