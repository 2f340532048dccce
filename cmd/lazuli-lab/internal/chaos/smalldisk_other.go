//go:build !linux

package chaos

import "errors"

// smallDisk is implemented on Linux only.
type smallDisk struct{}

func newSmallDisk(string) (*smallDisk, error) {
	return nil, errors.New("a small file system can be mounted on Linux only")
}

func (*smallDisk) fill() error  { return nil }
func (*smallDisk) empty() error { return nil }
func (*smallDisk) close() error { return nil }
