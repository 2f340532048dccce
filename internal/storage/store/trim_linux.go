package store

import (
	"bytes"
	"errors"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

const canTrim = true

var errStatm = errors.New("store: /proc/self/statm: unexpected content")

// residentFile returns the resident file-backed memory of this process, in bytes: the third field of
// /proc/self/statm (proc_pid_statm(5)).
func residentFile() (int64, error) {
	f, err := os.Open("/proc/self/statm")
	if err != nil {
		return 0, err
	}
	defer f.Close()
	var buf [128]byte
	n, err := f.Read(buf[:])
	if err != nil {
		return 0, err
	}
	fields := bytes.Fields(buf[:n])
	if len(fields) < 3 {
		return 0, errStatm
	}
	pages, err := strconv.ParseInt(string(fields[2]), 10, 64)
	return pages * int64(os.Getpagesize()), err
}

// releaseMapped removes size bytes at addr, part of a shared file mapping, from the resident set (madvise(2),
// MADV_DONTNEED). The content does not change.
func releaseMapped(addr uintptr, size int64) error {
	// A raw system call, because the wrapper takes a slice, which would need a pointer made from a number.
	_, _, errno := unix.Syscall(unix.SYS_MADVISE, addr, uintptr(size), unix.MADV_DONTNEED)
	if errno != 0 {
		return errno
	}
	return nil
}
