//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package filelock

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

func unlock(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_UN) }

func lock(f *os.File, m mode) error {
	how := unix.LOCK_EX
	if m == shared {
		how = unix.LOCK_SH
	}
	if m != exclusiveWait {
		how |= unix.LOCK_NB
	}
	for {
		err := unix.Flock(int(f.Fd()), how)
		switch {
		case errors.Is(err, unix.EWOULDBLOCK):
			return ErrBusy
		case !errors.Is(err, unix.EINTR):
			return err
		}
	}
}
