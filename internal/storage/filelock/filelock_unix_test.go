//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package filelock

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// A child process that is being started has a copy of each open file for a moment. A lock that was given back ends
// nevertheless.
func TestCloseEndsTheLockOfCopies(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "LOCK")
	open := func() *os.File {
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	first, second := open(), open()
	if err := Try(first); err != nil {
		t.Fatal(err)
	}
	if err := Try(second); !errors.Is(err, ErrBusy) {
		t.Fatalf("a second lock: %v, want ErrBusy", err)
	}
	copied, err := unix.Dup(int(first.Fd())) // as a child has it
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(copied)
	if err := Close(first); err != nil {
		t.Fatal(err)
	}
	if err := Try(second); err != nil {
		t.Errorf("a lock after the first was closed: %v", err)
	}
	if err := Close(second); err != nil {
		t.Error(err)
	}
}
