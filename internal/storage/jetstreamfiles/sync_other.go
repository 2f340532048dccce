//go:build !linux

package jetstreamfiles

import "os"

// fdatasync is a full sync where the system has nothing less.
func fdatasync(f *os.File) error { return f.Sync() }
