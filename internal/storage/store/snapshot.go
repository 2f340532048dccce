package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/lazuli-storage/lazuli/internal/storage/replog"
)

// snapshotCheck is the interval of comparing the log with Options.SnapshotLog, and snapshotTerm how long another node
// may take for a snapshot.
const (
	snapshotCheck = 30 * time.Second
	snapshotTerm  = 15 * time.Minute
)

// Snapshot puts a snapshot of the store into its replicated log, for nodes that join. It also lets the log drop what
// the snapshot before had. Reads and writes go on meanwhile.
func (db *DB) Snapshot(ctx context.Context) error {
	if db.replica == nil {
		return errors.New("store: a snapshot needs a replicated log")
	}
	var (
		tx  Tx
		p   replog.Position
		err error
	)
	// The position and the transaction must be of the same moment: no record is applied while At runs.
	db.replica.log.At(func(at replog.Position) {
		p = at
		err = db.beginRead(&tx)
	})
	if err != nil {
		return err
	}
	defer tx.endRead()
	if err := db.syncAttached(); err != nil { // the log may drop them afterwards
		return err
	}
	if err := db.replica.log.WriteSnapshot(ctx, p, func(w io.Writer) error { return db.writeFrames(&tx, w) }); err != nil {
		return fmt.Errorf("store: snapshot: %w", err)
	}
	return nil
}

// keepSnapshots makes a snapshot when the log has become long, until ctx ends.
func (db *DB) keepSnapshots(ctx context.Context, limit int64) {
	tick := time.NewTicker(snapshotCheck)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := db.snapshotIfLong(ctx, limit); err != nil && ctx.Err() == nil {
			db.replica.log.Logger().Warn("cannot make a snapshot; trying again", "err", err)
		}
	}
}

// snapshotIfLong makes a snapshot if the log is longer than the limit and than the file, and no other node makes one.
func (db *DB) snapshotIfLong(ctx context.Context, limit int64) error {
	// A node that is behind would publish an old state.
	if db.replica.log.Status().CatchingUp {
		return nil
	}
	size, err := db.replica.log.Size(ctx)
	if err != nil {
		return err
	}
	// A snapshot is about as long as the file, so it pays only once the log is longer than both.
	if size <= max(limit, db.fileSize()) {
		return nil
	}
	if err := db.replica.log.Claim(ctx, snapshotTerm); err != nil {
		if errors.Is(err, replog.ErrClaimed) {
			return nil
		}
		return err
	}
	return db.Snapshot(ctx)
}
