//go:build !unix

package rig

import "errors"

// CanFreeze: this system has no signals that stop a process and let it go on.
const CanFreeze = false

// Thaw lets a frozen process go on.
func (c *Child) Thaw() error { return errors.ErrUnsupported }
