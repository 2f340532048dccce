//go:build !linux

package server

import "testing"

func smallDisk(t *testing.T, _ int) string {
	t.Skip("needs a file system of its own")
	return ""
}
