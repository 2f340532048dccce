//go:build !unix

package demo

import "errors"

// canFreeze: this system has no signals that stop a process and let it go on.
const canFreeze = false

func (c *child) thaw() error { return errors.ErrUnsupported }
