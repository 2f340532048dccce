package blobsvc_test

import (
	"flag"
	"os"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/test/check"
)

func TestMain(m *testing.M) {
	// The number of random sequences of operations that a comparison with a model tries, unless the flag sets it.
	_ = flag.Set("rapid.checks", check.Size("15", "40"))
	check.FilesInMemory()
	check.MoreParallel(4) // many tests wait, for disks and copies
	os.Exit(m.Run())
}
