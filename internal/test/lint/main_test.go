package lint

import (
	"os"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/test/check"
)

func TestMain(m *testing.M) {
	check.CollectRarely()
	os.Exit(m.Run())
}
