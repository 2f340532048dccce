package extent

import (
	"flag"
	"os"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/test/check"
)

func TestMain(m *testing.M) {
	// The number of random histories that a comparison with a model tries, unless the flag sets it.
	_ = flag.Set("rapid.checks", check.Size("40", "100"))
	check.FilesInMemory()
	os.Exit(m.Run())
}
