//go:build !unix

package natsserver

// openFiles returns a conservative limit of open files, because the system does not report one.
func openFiles() int { return 8192 }
