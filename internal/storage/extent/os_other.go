//go:build !linux

package extent

import (
	"errors"
	"os"
)

func writeback(*os.File, int64, int64) {}

func adviseSequential(*os.File) {}

const (
	canDirect  = false
	directFlag = 0
)

func mapFile(*os.File, int64, int) (p []byte, unmap func(), ok bool) { return nil, nil, false }

func mapMemory(int) (p []byte, ok bool) { return nil, false }

func adviseLarge([]byte) {}

func discardMemory([]byte) {}

func cannotRead(error) bool { return false }

const canReopen = false

func reopen(*os.File) (*os.File, error) { return nil, errors.ErrUnsupported }
