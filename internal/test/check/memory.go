package check

import (
	"os"
	"testing"
)

// MemoryDir returns an empty folder, in memory where possible, which the end of the test removes: for simulated
// crashes, and for tests that open hundreds of folders, syncing would only take time.
func MemoryDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "lazuli-test")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
