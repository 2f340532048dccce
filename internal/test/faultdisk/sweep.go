package faultdisk

import (
	"fmt"
	"syscall"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// leastOperations is the number of operations below which a run shows nothing.
const leastOperations = 40

// Sweep makes each operation of a run fail, one run for each, for a moment or for good. run makes the n-th operation
// fail, and reports whether it came to it. Without LAZULI_TEST_FULL each kind of failure comes to every third
// operation, each kind to others.
func Sweep(t *testing.T, run func(t *testing.T, n int, failure Failure) bool) {
	t.Helper()
	step := check.Size(3, 1)
	for kind, failure := range []Failure{
		{Err: syscall.EIO}, {Err: syscall.EIO, Once: true}, {Err: syscall.EROFS},
		{Err: syscall.ENOSPC, Partly: true}, {Err: syscall.ENOSPC, Once: true, Partly: true},
	} {
		t.Run(fmt.Sprintf("%v,once=%v", failure.Err, failure.Once), func(t *testing.T) {
			t.Parallel()
			n := 1 + kind%step
			for run(t, n, failure) {
				n += step
			}
			if n < leastOperations {
				t.Errorf("the run has %d operations: the test shows nothing", n-1)
			}
		})
	}
}
