package disk_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/storage/disk"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/crashimage"
)

// After each function has returned, a power failure takes nothing of what it says is durable. Each has a folder that no
// other one syncs.
func TestThePrimitivesAreDurable(t *testing.T) {
	t.Parallel()
	r := crashimage.OfTest(t, func(dir string) {
		folders := map[string]string{}
		for _, name := range []string{"written", "synced", "content"} {
			folders[name] = filepath.Join(dir, "made", name)
			check.OK(t, disk.MkdirAll(folders[name], 0o700))
		}
		check.OK(t, disk.WriteFile(folders["written"], "configuration", []byte("old")))
		check.OK(t, disk.WriteFile(folders["written"], "configuration", []byte("new")))
		for folder, sync := range map[string]func(string) error{"synced": disk.SyncDir, "content": disk.OS.SyncDir} {
			f := check.Must(disk.OS.OpenFile(filepath.Join(folders[folder], "file"), os.O_RDWR|os.O_CREATE, 0o600))(t)
			_, err := f.WriteAt([]byte("bytes"), 0)
			check.OK(t, err)
			check.OK(t, f.Sync())
			check.OK(t, f.Close())
			check.OK(t, sync(folders[folder]))
		}
	})
	r.Durable(t, nil)
	// The name leads to the old content or to the new one, and at no moment to an empty file.
	r.Order(t, "write made/written/configuration.part", "sync made/written/configuration.part",
		"rename made/written/configuration.part", "sync made/written")
}
