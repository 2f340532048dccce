//go:build !linux

package gctuner

// ReleaseProgram does nothing: other systems count memory in other ways.
func ReleaseProgram() (regions int, err error) { return 0, nil }

func release(bool) (regions int, err error) { return 0, nil }
