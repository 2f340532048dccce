//go:build unix

package rig

import "syscall"

// CanFreeze: this system can stop a process and let it go on.
const CanFreeze = true

// Thaw lets a frozen process go on.
func (c *Child) Thaw() error { return c.Signal(syscall.SIGCONT) }
