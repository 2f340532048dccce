package state

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/lazuli-storage/lazuli/internal/storage/extent"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// maxLogged is the maximum size in bytes of content that becomes durable with the transaction that refers to it,
// instead of by a sync of its own. It is written twice, to the log of the database and to its extent, which costs less
// than a second sync.
const maxLogged = 16 << 10

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

// openFiles opens the database, completes the extents by what its log has, and opens them. grace is an
// extent.Options.Grace.
func (s *core) openFiles(path, extents string, o store.Options, grace time.Duration) (err error) {
	logged := &loggedContent{Restorer: extent.NewRestorer(extents, o.FS, false)}
	o.Buckets, o.Attachments = Buckets(), logged
	if s.db, err = store.Open(path, o); err != nil {
		return err
	}
	files := extent.Options{Relaxed: o.Relaxed, Ephemeral: o.Ephemeral, FS: o.FS, Logged: maxLogged, Grace: grace,
		Refs: s.allReferences, Logger: o.Logger}
	s.extents, err = extent.Open(extents, files)
	if err != nil {
		return errors.Join(err, s.db.Close())
	}
	logged.extents.Store(s.extents)
	return nil
}

// Recover writes what a crash left in the log of a stopped service to its places, in the database and in the extents.
func Recover(path, extents string) error {
	db, err := store.Open(path, store.Options{Buckets: Buckets(), Attachments: extent.NewRestorer(extents, nil, false)})
	if err != nil {
		return err
	}
	return db.Close()
}
