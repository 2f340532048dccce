//go:build !linux

package store

const canTrim = false

func residentFile() (int64, error) { return 0, nil }

func releaseMapped(uintptr, int64) error { return nil }
