package diskspace

import (
	"syscall"

	"golang.org/x/sys/windows"
)

// errQuota is ERROR_DISK_FULL: on Windows, package syscall defines ENOSPC as a number that the system does not use.
const errQuota = syscall.Errno(windows.ERROR_DISK_FULL)

func capacity(dir string) (int64, error) {
	name, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return 0, err
	}
	var n uint64
	err = windows.GetDiskFreeSpaceEx(name, nil, &n, nil)
	return int64(n), err
}

func free(dir string) (int64, error) {
	name, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return 0, err
	}
	var n uint64
	err = windows.GetDiskFreeSpaceEx(name, &n, nil, nil)
	return int64(n), err
}
