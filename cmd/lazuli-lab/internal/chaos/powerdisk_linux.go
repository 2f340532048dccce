package chaos

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/lazuli-storage/lazuli/internal/storage/disk"
)

// powerDiskSize is the size of the file system; the file that has it grows as it is used.
const powerDiskSize = 4 << 30

// powerDisk is a file system of its own in a file, which can lose everything that was not synced.
type powerDisk struct{ path, image string }

// newPowerDisk makes and mounts a file system. It fails where the process may not.
func newPowerDisk(path, image string) (*powerDisk, error) {
	if err := disk.MkdirAll(path, 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(image, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	err = f.Truncate(powerDiskSize)
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		// The image is sparse: discarding would write all of it.
		err = command("mkfs.ext4", "-q", "-F", "-E", "nodiscard", image)
	}
	d := &powerDisk{path, image}
	if err == nil {
		err = d.mount()
	}
	if err == nil {
		// A data folder must be empty when the node starts first.
		err = os.Remove(filepath.Join(path, "lost+found"))
	}
	if err != nil {
		return nil, fmt.Errorf("a file system in a file: %w", err)
	}
	return d, nil
}

// mount mounts the file system. It writes by itself what was not synced after a minute, and not after five seconds, as
// file systems usually do.
func (d *powerDisk) mount() error {
	return command("mount", "-o", "loop,commit=60", d.image, d.path)
}

// stop makes the file system drop what was not synced, and refuse everything from now on. It leaves the journal as it
// is.
func (d *powerDisk) stop() error {
	f, err := os.Open(d.path)
	if err != nil {
		return err
	}
	defer f.Close()
	const (
		shutdown   = 0x8004587d // FS_IOC_SHUTDOWN
		noLogFlush = 2          // FS_SHUTDOWN_FLAGS_NOLOGFLUSH
	)
	if err := unix.IoctlSetPointerInt(int(f.Fd()), shutdown, noLogFlush); err != nil {
		return fmt.Errorf("shut %s down: %w", d.path, err)
	}
	return nil
}

// start mounts the file system again, as after a power failure. The processes that use it must have ended.
func (d *powerDisk) start() error {
	if err := unix.Unmount(d.path, 0); err != nil {
		return fmt.Errorf("unmount %s: %w", d.path, err)
	}
	return d.mount()
}

// close unmounts the file system. The processes that use it must have ended.
func (d *powerDisk) close() error { return unix.Unmount(d.path, unix.MNT_DETACH) }

// command runs a program of the system.
func command(name string, args ...string) error {
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, bytes.TrimSpace(out))
	}
	return nil
}
