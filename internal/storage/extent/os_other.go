//go:build !linux

package extent

import (
	"errors"
	"os"
	"runtime"
)

func dataSync(f *os.File) error { return f.Sync() }

func writeback(*os.File, int64, int64) {}

const canReopen = false

func reopen(*os.File) (*os.File, error) { return nil, errors.ErrUnsupported }

func syncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil // folders cannot be synced there
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
