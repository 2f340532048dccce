//go:build !unix

package killrig

import "errors"

// HasSignals reports whether this system has signals that end a process in order, stop it, and let it go on.
const HasSignals = false

// Pause does nothing: this system cannot stop a process without ending it.
func (p *Process) Pause() {}

// Resume does nothing, and fails.
func (p *Process) Resume() error { return errors.ErrUnsupported }
