package replica

import (
	"os"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/test/check"
)

func TestMain(m *testing.M) {
	check.FilesInMemory()
	os.Exit(m.Run())
}
