//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package datadir

import (
	"os"
	"syscall"
)

// owned reports whether the file belongs to the user who runs this process.
func owned(info os.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid()
}
