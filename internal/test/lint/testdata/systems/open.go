// Package systems has errors that only files for other systems show.
package systems

import "os"

// Open locks a file.
func Open(f *os.File) error { return lock(f) }
