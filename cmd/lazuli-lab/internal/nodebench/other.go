//go:build !linux

package nodebench

import (
	"errors"
	"time"
)

var errSystem = errors.New("shares of a processor and slow disks need Linux: use --share 0 and --sync 0")

func limit(int, string, float64) (end func() error, err error) { return nil, errSystem }

func slowDisk(string, string, time.Duration) (unmount func() error, err error) { return nil, errSystem }
