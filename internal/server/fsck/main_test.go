package fsck_test

import (
	"os"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/test/check"
)

func TestMain(m *testing.M) {
	check.FilesInMemory()
	check.MoreParallel(4) // many tests wait, for disks
	os.Exit(m.Run())
}
