package chaos

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/lazuli-storage/lazuli/internal/storage/disk"
)

// smallDiskSize is the size of the file system while it is not full.
const smallDiskSize = 2 << 30

// smallDisk is a file system in memory, which becomes full when its size is changed to what it has.
type smallDisk struct{ path string }

// newSmallDisk mounts a file system. It fails where the process may not.
func newSmallDisk(path string) (*smallDisk, error) {
	if err := disk.MkdirAll(path, 0o700); err != nil {
		return nil, err
	}
	if err := unix.Mount("tmpfs", path, "tmpfs", 0, fmt.Sprintf("size=%d,mode=0700", smallDiskSize)); err != nil {
		return nil, fmt.Errorf("mount %s: %w", path, err)
	}
	return &smallDisk{path}, nil
}

// fill leaves no free space but a few pages.
func (d *smallDisk) fill() error {
	var s unix.Statfs_t
	if err := unix.Statfs(d.path, &s); err != nil {
		return err
	}
	return d.resize((s.Blocks - s.Bfree + 16) * uint64(s.Bsize))
}

// empty ends fill.
func (d *smallDisk) empty() error { return d.resize(smallDiskSize) }

func (d *smallDisk) resize(size uint64) error {
	if err := unix.Mount("tmpfs", d.path, "tmpfs", unix.MS_REMOUNT, fmt.Sprintf("size=%d", size)); err != nil {
		return fmt.Errorf("resize %s: %w", d.path, err)
	}
	return nil
}

// close removes the file system. The processes that use it must have ended.
func (d *smallDisk) close() error { return unix.Unmount(d.path, unix.MNT_DETACH) }
