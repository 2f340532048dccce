package parameters

import (
	"os"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/test/check"
)

func TestMain(m *testing.M) {
	check.MoreParallel(8) // the tests of nodes wait, for disks
	os.Exit(m.Run())
}
