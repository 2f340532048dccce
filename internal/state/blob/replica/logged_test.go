package replica

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/storage/extent"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/faultdisk"
)

// Before the extents are open, the log drops the content that it had of them once Sync has returned.
func TestRestoredContentIsSynced(t *testing.T) {
	t.Parallel()
	dir, killed := t.TempDir(), t.TempDir()
	s := check.Must(extent.Open(dir, extent.Options{Logged: MaxLogged}))(t)
	defer s.Close()
	w := s.NewWriter(-1)
	defer w.Close()
	check.Must(w.Write([]byte("content")))(t)
	_, logged, ok, err := w.CommitLogged()
	if check.OK(t, err); !ok {
		t.Fatal("the content is durable already")
	}
	check.OK(t, os.CopyFS(killed, os.DirFS(dir)))

	disk := &faultdisk.FS{}
	var kinds []faultdisk.Kind
	disk.SetHook(func(op faultdisk.Op) error {
		if filepath.Dir(op.Name) == killed {
			kinds = append(kinds, op.Kind)
		}
		return nil
	})
	l := loggedContent{Restorer: extent.NewRestorer(killed, disk, false)}
	check.OK(t, l.Restore(logged.Key, logged.Value))
	check.OK(t, l.Sync())
	if want := []faultdisk.Kind{faultdisk.Write, faultdisk.Sync}; !slices.Equal(kinds, want) {
		t.Errorf("the disk got %q, want %q", kinds, want)
	}
}
