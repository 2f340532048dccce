//go:build !unix

package chaos

// canStop is false because this system cannot ask a process to end: SIGTERM does not exist. Such rounds kill instead.
const canStop = false

// pause does nothing: this system cannot stop a process without ending it.
func (p *process) pause() {}
