//go:build unix && !linux

package child

import "syscall"

// dieWithParent does nothing: this system has no such signal. A handler outlives a host that was killed.
func dieWithParent(*syscall.SysProcAttr) {}
