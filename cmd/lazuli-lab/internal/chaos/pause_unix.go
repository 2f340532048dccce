//go:build unix

package chaos

import "syscall"

// canStop reports whether a process can be asked to end.
const canStop = true

// pause stops the process without ending it.
func (p *process) pause() { _ = p.Signal(syscall.SIGSTOP) }
