//go:build !linux

package disk

import "os"

func dataSync(f *os.File) error { return f.Sync() }
