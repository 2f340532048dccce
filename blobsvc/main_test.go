package blobsvc_test

import (
	"flag"
	"os"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// modelChecks is the number of random sequences that of operations a comparison with a model tries, unless the flag
// sets it.
const modelChecks = "40"

func TestMain(m *testing.M) {
	_ = flag.Set("rapid.checks", modelChecks)
	check.MoreParallel(4) // many tests wait, for disks and copies
	os.Exit(m.Run())
}
