package extent

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/lazuli-storage/lazuli/internal/storage/disk"
)

// Repair finishes extents that Open refuses because the metadata refers to damaged content in them. It copies each
// extent to the folder aside, which it creates, and keeps all intact records. Damaged records stay in place; reading
// them fails. report is called for each extent. refs has the contract of Options.Refs. No process may have the folder
// open.
func Repair(dir, aside string, refs func(yield func(Ref) bool) error, report func(string)) (repaired int, err error) {
	s := &Store{dir: dir, opts: Options{FS: disk.OS, ReadOnly: true, Refs: refs}, extents: map[uint64]*extent{}}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0, err
	}
	for _, entry := range entries {
		id, suffix, ok := parseName(entry.Name())
		if !ok || suffix != openSuffix {
			continue
		}
		e := newExtent(s, id)
		x, err := e.examine()
		if err != nil {
			return repaired, err
		}
		if s.checkReferences([]*extent{e}, []examination{x}) == nil {
			continue // Open handles this case
		}
		if err := disk.MkdirAll(aside, 0o700); err != nil {
			return repaired, err
		}
		if err := disk.CopyFile(disk.OS, filepath.Join(dir, entry.Name()), filepath.Join(aside, entry.Name())); err != nil {
			return repaired, err
		}
		if err := disk.SyncDir(aside); err != nil {
			return repaired, err
		}
		if err := e.recover(x); err != nil {
			return repaired, err
		}
		repaired++
		report(fmt.Sprintf("%s: %d bytes are damaged; everything else was kept", entry.Name(), x.damaged()))
	}
	if err := disk.SyncDir(dir); err != nil || repaired == 0 {
		return repaired, err
	}
	return repaired, writeList(disk.OS, dir)
}
