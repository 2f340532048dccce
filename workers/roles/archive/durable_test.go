package archive_test

import (
	"path/filepath"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/crashimage"
	"github.com/lazuli-storage/lazuli/workers/roles/archive"
)

// The entity is deleted from its table once Put has returned: from then on the file is the only copy.
func TestAnArchivedEntityIsDurable(t *testing.T) {
	t.Parallel()
	crashimage.OfTest(t, func(dir string) {
		target := archive.Folder(filepath.Join(dir, "archive", "entities"))
		for _, row := range []string{"1", "2"} {
			check.OK(t, target.Put(t.Context(), archive.Entity{Key: archive.Key{PartitionKey: "p", RowKey: row},
				JSON: []byte(`{"RowKey":"` + row + `"}`)}))
		}
	}).Durable(t, nil)
}
