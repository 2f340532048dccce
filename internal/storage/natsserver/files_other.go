//go:build !unix

package natsserver

// openFiles returns how many files the process may have open, where the system does not say.
func openFiles() int { return 8192 }
