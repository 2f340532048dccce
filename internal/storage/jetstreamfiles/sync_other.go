//go:build !linux

package jetstreamfiles

import "os"

// fdatasync is a full sync on systems without fdatasync.
func fdatasync(f *os.File) error { return f.Sync() }
