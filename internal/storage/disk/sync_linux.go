package disk

import (
	"os"

	"golang.org/x/sys/unix"
)

// dataSync writes a file's content, and its size, to disk.
func dataSync(f *os.File) error {
	for {
		if err := unix.Fdatasync(int(f.Fd())); err != unix.EINTR {
			return err
		}
	}
}
