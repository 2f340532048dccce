//go:build !unix

package fault

import "errors"

// Stop fails: this system cannot stop a process and let it go on.
func Stop(Name) error { return errors.New("fault: this system cannot stop a process") }
