package secretfile

import (
	"path/filepath"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/crashimage"
)

// A key encrypts or signs as soon as Write or Create returns: without the file, what it encrypted would be lost.
func TestASecretIsDurable(t *testing.T) {
	t.Parallel()
	r := crashimage.OfTest(t, func(dir string) {
		check.OK(t, Create(filepath.Join(dir, "created"), []byte("key")))
		check.OK(t, Write(filepath.Join(dir, "written"), []byte("old")))
		crashimage.Prepared(t, dir)
		check.OK(t, Write(filepath.Join(dir, "written"), []byte("new")))
	})
	r.Durable(t, nil)
	r.Order(t, "write .written.*", "sync .written.*", "rename .written.*", "sync .")
}
