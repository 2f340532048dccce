package backup_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/server"
	"github.com/lazuli-storage/lazuli/internal/server/backup"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/workers"
)

// fill writes a table with an entity, a queue with a message, and a blob of 5 MiB, whose names have a number.
func fill(t *testing.T, s *server.Server, n int) {
	t.Helper()
	storage, err := workers.OpenStorage(s.ConnectionString())
	check.OK(t, err)
	_, err = storage.Tables.CreateTable(t.Context(), fmt.Sprintf("Table%d", n), nil)
	check.OK(t, err)
	_, err = storage.Tables.NewClient(fmt.Sprintf("Table%d", n)).AddEntity(t.Context(),
		[]byte(`{"PartitionKey":"a","RowKey":"b"}`), nil)
	check.OK(t, err)
	_, err = storage.Queues.CreateQueue(t.Context(), fmt.Sprintf("queue-%d", n), nil)
	check.OK(t, err)
	_, err = storage.Queues.NewQueueClient(fmt.Sprintf("queue-%d", n)).EnqueueMessage(t.Context(), "text", nil)
	check.OK(t, err)
	_, err = storage.Blobs.CreateContainer(t.Context(), fmt.Sprintf("container-%d", n), nil)
	check.OK(t, err)
	_, err = storage.Blobs.UploadBuffer(t.Context(), fmt.Sprintf("container-%d", n), "blob",
		bytes.Repeat([]byte{byte(n)}, 5<<20), nil)
	check.OK(t, err)
}

// files returns the number of files in a folder.
func files(t *testing.T, folder string) (n int) {
	t.Helper()
	check.OK(t, filepath.WalkDir(folder, func(_ string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			n++
		}
		return err
	}))
	return n
}

// sums returns the sums of the pieces of a backup.
func sums(m *backup.Manifest) map[string]bool {
	all := map[string]bool{}
	for _, list := range m.Databases {
		for _, p := range list {
			all[p.Sum] = true
		}
	}
	for _, c := range m.Contents {
		all[c.Piece.Sum] = true
	}
	if m.Keys != nil {
		all[m.Keys.Sum] = true
	}
	return all
}
