package peering

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/crashimage"
)

// The folder's data goes to the logs of the node that Convert has made: its identity, and the name of its folder, are
// on disk before.
func TestAConvertedIdentityIsDurable(t *testing.T) {
	t.Parallel()
	crashimage.OfTest(t, func(dir string) {
		check.OK(t, os.Mkdir(filepath.Join(dir, "cluster"), 0o700))
		_, err := Convert(filepath.Join(dir, "cluster"), "n1")
		check.OK(t, err)
	}).Durable(t, nil)
}
