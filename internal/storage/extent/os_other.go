//go:build !linux

package extent

import (
	"errors"
	"os"
)

func writeback(*os.File, int64, int64) {}

const canReopen = false

func reopen(*os.File) (*os.File, error) { return nil, errors.ErrUnsupported }
