package replica

import (
	"errors"
	"sync/atomic"

	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/storage/extent"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// MaxLogged is the maximum size in bytes of content that becomes durable with the transaction that refers to it,
// instead of by a sync of its own. It is written twice, to the log of the database and to its extent, which costs less
// than a second sync.
const MaxLogged = 16 << 10

// loggedContent holds what the log of the database has of the extents. The transaction of a write attaches the record
// of its content; the log keeps it until the extent was synced, which happens once for many of them. After a crash,
// Open writes it to its place in the extents again.
type loggedContent struct {
	*extent.Restorer
	extents atomic.Pointer[extent.Store] // nil until the extents are open
}

var _ store.Attachments = (*loggedContent)(nil)

// Sync implements store.Attachments.
func (l *loggedContent) Sync() error {
	if extents := l.extents.Load(); extents != nil {
		return extents.SyncLogged()
	}
	return l.Restorer.Sync()
}

// copiedContent takes the content that the log of a cluster has, of all nodes.
type copiedContent struct{ extents *extent.Store }

var _ store.Attachments = copiedContent{}

// Restore implements store.Attachments.
func (c copiedContent) Restore(key, value []byte) error {
	err := c.extents.PutLogged(key, value)
	if errors.Is(err, extent.ErrCorrupt) {
		return nil // a reader fetches it
	}
	return err
}

// Sync implements store.Attachments.
func (c copiedContent) Sync() error {
	return errors.Join(c.extents.SyncLogged(), c.extents.SyncAllPuts())
}

// Recover writes what a crash left in the log of a stopped service to its places, in the database and in the extents.
func Recover(path, extents string) error {
	db, err := store.Open(path, store.Options{Buckets: record.Buckets(), Attachments: extent.NewRestorer(extents, nil,
		false)})
	if err != nil {
		return err
	}
	return db.Close()
}
