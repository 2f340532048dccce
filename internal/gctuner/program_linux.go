package gctuner

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// ReleaseProgram removes the pages of the program's own file from the process's resident memory. They stay in the page
// cache, and those that are used come back at their next use, 64 KiB for each fault. After a start most of them were
// only needed by initialisation. It returns the number of regions that it has released.
func ReleaseProgram() (regions int, err error) { return release(false) }

// release is ReleaseProgram, and if shared is set, for the files that the process has mapped to read them, too.
func release(shared bool) (regions int, err error) {
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return 0, err
	}
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		return 0, err
	}
	defer f.Close()
	list, err := cleanRegions(f, program, shared)
	if err != nil {
		return 0, err
	}
	for _, r := range list {
		// A raw system call, because the wrapper takes a slice, which would need a pointer made from a number.
		_, _, errno := unix.Syscall(unix.SYS_MADVISE, r.start, r.end-r.start, unix.MADV_DONTNEED)
		if errno != 0 {
			err = errors.Join(err, errno)
			continue
		}
		regions++
	}
	return regions, err
}
