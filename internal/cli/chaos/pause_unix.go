//go:build unix

package chaos

import "syscall"

// canStop reports whether a process can be asked to end.
const canStop = true

// pause stops the process without ending it.
func (p *process) pause() { _ = p.Signal(syscall.SIGSTOP) }

// resume lets a paused process go on.
func (p *process) resume() { _ = p.Signal(syscall.SIGCONT) }
