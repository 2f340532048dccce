// Package sqlite stands in for durabletask-go's backend of that name while its tests run on Lazuli's. See .ci/durable.
package sqlite

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/microsoft/durabletask-go/backend"

	"github.com/lazuli-storage/lazuli/workers"
	"github.com/lazuli-storage/lazuli/workers/durable"
)

type SqliteOptions struct{}

func NewSqliteOptions(string) *SqliteOptions { return &SqliteOptions{} }

// perTest is a backend whose hub is a new one after each CreateTaskHub: Azure does not let a queue be made again at
// once under the name of a deleted one.
type perTest struct {
	backend.Backend
	made atomic.Int64
}

func NewSqliteBackend(*SqliteOptions, backend.Logger) backend.Backend {
	b := &perTest{}
	b.Backend = b.open(4)
	return b
}

func (b *perTest) open(partitions int) backend.Backend {
	storage, err := workers.OpenStorage(os.Getenv("LAZULI_CONNECTION_STRING"))
	if err != nil {
		panic(err)
	}
	log := io.Writer(io.Discard)
	if os.Getenv("DURABLE_LOG") != "" {
		log = os.Stderr
	}
	be, err := durable.NewHub(durable.HubOptions{Storage: storage, Partitions: partitions,
		Hub:    fmt.Sprintf("T%x%d", time.Now().UnixNano(), b.made.Add(1)),
		Logger: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		panic(err)
	}
	return be
}

func (b *perTest) CreateTaskHub(ctx context.Context) error {
	// The tests of single calls expect instances in the order of their creation: one partition.
	b.Backend = b.open(1)
	return b.Backend.CreateTaskHub(ctx)
}
