//go:build unix && !linux

package customhandler

import "syscall"

// dieWithParent: there is no such thing here. A handler outlives a host that was killed.
func dieWithParent(*syscall.SysProcAttr) {}
