// Package fulldisk lets tests observe a full disk without filling one. It is implemented on Linux only.
package fulldisk
