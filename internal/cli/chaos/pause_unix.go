//go:build unix

package chaos

import "syscall"

// pause stops the process without ending it; only kill helps then.
func (p *process) pause() { _ = p.Signal(syscall.SIGSTOP) }
