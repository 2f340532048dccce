package tablesvc

import (
	"errors"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/frontend"
	"github.com/lazuli-storage/lazuli/internal/service/tablehost"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/faultdisk"
)

// After a failed sync the content of the disk is unknown: writes are refused until a restart, and readiness says so.
func TestFailedSyncEndsReadiness(t *testing.T) {
	t.Parallel()
	fsys := &faultdisk.FS{}
	s, err := open(tablehost.Config{Path: filepath.Join(t.TempDir(), "tables.db"), Store: store.Options{FS: fsys},
		Common: frontend.Common{Accounts: auth.Development()}})
	check.OK(t, err)
	check.OK(t, s.state.CreateTable("devstoreaccount1", "before", time.Now()))
	check.OK(t, s.Ready())
	fsys.Fail(1, faultdisk.Failure{Err: syscall.EIO, Once: true}, faultdisk.Sync)
	if err := s.state.CreateTable("devstoreaccount1", "during", time.Now()); !errors.Is(err, syscall.EIO) {
		t.Errorf("a write whose sync fails: %v, want EIO", err)
	}
	if err := s.Ready(); !errors.Is(err, store.ErrFailed) || !errors.Is(err, syscall.EIO) {
		t.Errorf("ready: %v, want ErrFailed with its cause", err)
	}
	if err := s.Close(); !errors.Is(err, store.ErrFailed) {
		t.Errorf("close: %v, want ErrFailed", err)
	}
}
