// Package operations has the operations tables of the services, for tests that go through all operations.
package operations

import (
	"errors"
	"log/slog"
	"sync"
	"testing"

	"github.com/lazuli-storage/lazuli/blobsvc"
	"github.com/lazuli-storage/lazuli/internal/azure/frontend"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/service"
	"github.com/lazuli-storage/lazuli/queuesvc"
	"github.com/lazuli-storage/lazuli/tablesvc"
)

// Tables returns the operations tables of all endpoints. They must not be changed.
func Tables(t testing.TB) map[wire.Service][]frontend.Row {
	t.Helper()
	tables, err := read()
	if err != nil {
		t.Fatal(err)
	}
	return tables
}

// read opens the services, which have the tables, and closes them.
var read = sync.OnceValues(func() (map[wire.Service][]frontend.Row, error) {
	log := slog.New(slog.DiscardHandler)
	blobs, err := blobsvc.New(blobsvc.Config{InMemory: true, Log: log})
	if err != nil {
		return nil, err
	}
	queues, err := queuesvc.New(queuesvc.Config{InMemory: true, Log: log})
	if err != nil {
		return nil, errors.Join(err, blobs.Close())
	}
	tables, err := tablesvc.New(tablesvc.Config{InMemory: true, Log: log})
	if err != nil {
		return nil, errors.Join(err, blobs.Close(), queues.Close())
	}
	all := map[wire.Service][]frontend.Row{wire.Blob: service.Get(blobs).Operations,
		wire.DataLake: service.Get(blobs).LakeOperations, wire.Queue: service.Get(queues).Operations,
		wire.Table: service.Get(tables).Operations}
	return all, errors.Join(blobs.Close(), queues.Close(), tables.Close())
})
