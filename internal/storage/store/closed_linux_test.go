package store

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/faultdisk"
	"github.com/lazuli-storage/lazuli/internal/test/natscluster"
)

// openFiles returns the files of a folder that this process has open.
func openFiles(t *testing.T, dir string) (found []string) {
	t.Helper()
	for _, fd := range check.Must(os.ReadDir("/proc/self/fd"))(t) {
		// Files of other tests may be closed meanwhile.
		if name, err := os.Readlink(filepath.Join("/proc/self/fd", fd.Name())); err == nil &&
			strings.HasPrefix(name, dir+"/") {
			found = append(found, filepath.Base(name))
		}
	}
	return found
}

// A store that was closed, or could not be opened, has no file open.
func TestAClosedStoreHasNoOpenFiles(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T, path string){
		"alone": func(t *testing.T, path string) {
			closeChecked(t, openAt(t, path, Options{}))
		},
		"read only": func(t *testing.T, path string) {
			closeChecked(t, openAt(t, path, Options{}))
			closeChecked(t, openAt(t, path, Options{ReadOnly: true}))
		},
		"the only view of a log": func(t *testing.T, path string) {
			o := Options{Log: openLog(t, natscluster.Start(t, 1), 0, "alone"), Private: true}
			closeChecked(t, openAt(t, path, o))
		},
		"refused": func(t *testing.T, path string) {
			fsys := &faultdisk.FS{}
			fsys.FailReads(faultdisk.Size, filepath.Base(path)+"-log1", syscall.EIO)
			if _, err := Open(path, Options{Buckets: []Bucket{"a"}, FS: fsys}); err == nil {
				t.Error("opened")
			}
		},
	} {
		dir := t.TempDir()
		open(t, filepath.Join(dir, "db"))
		if found := openFiles(t, dir); len(found) > 0 {
			t.Errorf("%s: open files: %q", name, found)
		}
	}
}
