//go:build !linux

package chaos

import "errors"

// powerDisk is implemented on Linux only.
type powerDisk struct{}

func newPowerDisk(string, string) (*powerDisk, error) {
	return nil, errors.New("the loss of power can be simulated on Linux only")
}

func (*powerDisk) stop() error  { return nil }
func (*powerDisk) start() error { return nil }
func (*powerDisk) close() error { return nil }
