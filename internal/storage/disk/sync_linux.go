package disk

import (
	"os"

	"golang.org/x/sys/unix"
)

// dataSync writes the content and size of a file to disk.
func dataSync(f *os.File) error {
	for {
		if err := unix.Fdatasync(int(f.Fd())); err != unix.EINTR {
			return err
		}
	}
}
