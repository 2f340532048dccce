//go:build !unix

package disk

// OpenFiles returns a conservative limit of open files, because the system does not report one.
func OpenFiles() int { return 8192 }
