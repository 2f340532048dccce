//go:build unix

package killrig

import "syscall"

// HasSignals reports whether this system has signals that end a process in order, stop it, and let it go on.
const HasSignals = true

// Pause stops the process without ending it.
func (p *Process) Pause() { _ = p.Signal(syscall.SIGSTOP) }

// Resume lets a paused process go on. It fails for one that has exited.
func (p *Process) Resume() error { return p.Signal(syscall.SIGCONT) }
