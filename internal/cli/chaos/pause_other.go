//go:build !unix

package chaos

// pause does nothing: this system cannot stop a process without ending it.
func (p *process) pause() {}
