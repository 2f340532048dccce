package store

import (
	"os"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/test/check"
)

func TestMain(m *testing.M) {
	check.MoreParallel(4) // many tests wait, for elections, disks or processes
	check.FilesInMemory()
	os.Exit(m.Run())
}
