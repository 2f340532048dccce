//go:build unix

package demo

import "syscall"

// canFreeze: this system can stop a process and let it go on.
const canFreeze = true

func (c *child) thaw() error { return c.Signal(syscall.SIGCONT) }
