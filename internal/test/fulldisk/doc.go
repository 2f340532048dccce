// Package fulldisk lets tests see what becomes of a full disk, without one. It has its means on Linux only.
package fulldisk
