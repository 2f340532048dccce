//go:build unix

package freeport

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/storage/filelock"
)

// childVar makes the test binary print an address.
const childVar = "LAZULI_TEST_FREEPORT_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childVar) != "" {
		address, err := Address()
		if err != nil {
			panic(err)
		}
		fmt.Print(address)
		return
	}
	os.Exit(m.Run())
}

// A process takes a part of the range that no other process has.
func TestProcessesUseDifferentParts(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	const free = 7
	for n := range parts {
		if n == free {
			continue
		}
		f, err := os.Create(lockPath(n))
		if err != nil {
			t.Fatal(err)
		}
		if err := filelock.Try(f); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = filelock.Close(f) })
	}
	c := exec.CommandContext(t.Context(), os.Args[0])
	c.Env = append(os.Environ(), childVar+"=1")
	address, err := c.Output()
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("127.0.0.1:%d", (firstPort+free*processPorts)/processPorts); !strings.HasPrefix(string(address),
		want) {
		t.Errorf("the address is %s, want %s..", address, want)
	}
}
