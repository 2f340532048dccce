package cluster

import (
	"os"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/test/check"
)

func TestMain(m *testing.M) {
	check.FilesInMemory()
	check.MoreParallel(4) // most tests wait, for elections, disks or processes
	os.Exit(m.Run())
}
