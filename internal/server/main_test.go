package server

import (
	"os"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/test/check"
)

func TestMain(m *testing.M) {
	if config := os.Getenv(matrixVariable); config != "" {
		serveMatrixNode(config)
		return
	}
	if steps := os.Getenv(accountsVariable); steps != "" {
		killAfterSteps(steps)
		return
	}
	if load := os.Getenv(tierVariable); load != "" {
		loadTierUntilKilled(load)
		return
	}
	check.MoreParallel(8) // most tests wait, for elections, disks or processes
	check.FilesInMemory()
	os.Exit(m.Run())
}
