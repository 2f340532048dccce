package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/lazuli-storage/lazuli/internal/storage/replog"
)

// openReplica begins to follow the log, and returns when everything in it has been applied.
func (db *DB) openReplica(o Options) error {
	r := db.replica
	db.gen = db.found.gen + 1
	switch {
	case db.found.logID == "":
		if empty, err := db.empty(); err != nil || !empty && !(o.Private && o.Log.Empty()) {
			return errors.Join(err, fmt.Errorf("%w: %s has the data of a single machine", ErrOtherLog, filepath.Base(db.path)))
		}
		// The id goes to the file before the first record does: from then on no other log can be mistaken for its own.
		r.id = o.Log.ID()
		if err := db.transact(func(tx *bolt.Tx) error {
			return db.putReplica(tx, replog.Position{},
				replog.Position{})
		}); err != nil {
			return err
		}
		if !db.ephemeral { // the file's name must be durable before the log drops what the file has
			if err := db.fs.SyncDir(filepath.Dir(db.path)); err != nil {
				return err
			}
		}
	case db.found.logID != o.Log.ID():
		help := ""
		if !o.Private {
			help = fmt.Sprintf("; if the folder belongs to this cluster, move the file away with `mv %[1]s %[1]s.other` and "+
				"start the node again: it gets everything from the other nodes", db.path)
		}
		return fmt.Errorf("%w: %s follows log %s, and the cluster has log %s%s", ErrOtherLog, filepath.Base(db.path),
			db.found.logID, o.Log.ID(), help)
	default:
		r.id, r.from, r.ahead = db.found.logID, db.found.from, db.found.ahead
		if o.Log.Clustered() { // the file may have a hold that this process does not see
			db.holds.add(0, time.Now())
		}
	}
	m := db.layers.Load().active
	m.position = r.from
	m.publish(r.from.Last)
	// Before anything is written to a log that lacks records.
	if err := db.mark.checkEnd(db.found, db.path, r.log.Found()); err != nil {
		return err
	}
	if err := r.log.Follow(r.from, db.applyRecord); err != nil {
		return err
	}
	// After it, this view has every record that was acknowledged before. Only then its end can be compared with the
	// file's.
	if err := r.log.Barrier(); err != nil {
		return logError(err)
	}
	at := db.layers.Load().active.visible.Load()
	// An interrupted checkpoint may have left writes up to r.ahead in the file. A log that ends before has lost records,
	// and the file would keep writes that no other node has.
	if at < r.ahead.Last {
		return fmt.Errorf("%w: the log ends at record %d, and %s has writes up to record %d", ErrOtherLog, at,
			filepath.Base(db.path), r.ahead.Last)
	}
	// Once more, with the last valid record in place of the last message.
	if err := db.mark.checkEnd(db.found, db.path, at); err != nil {
		return err
	}
	if n := db.mark.lost(at); n > 0 {
		db.logger.Error("a power failure has removed writes that were acknowledged without a sync", "file", db.path,
			"records", n)
	}
	if err := r.openMark(db, at, o); err != nil {
		return err
	}
	if o.SnapshotLog >= 0 && !o.Private {
		ctx, stop := context.WithCancel(context.Background())
		r.stop = stop
		limit := cmp.Or(o.SnapshotLog, DefaultSnapshotLog)
		r.snapshots.Go(func() { db.keepSnapshots(ctx, limit) })
	}
	return nil
}

// openMark begins the mark of the only view of a log, and a new generation of its file, which counts as open.
func (r *replica) openMark(db *DB, newest uint64, o Options) error {
	if !o.Private || o.Ephemeral {
		return nil
	}
	m, err := openMarker(db.fs, db.path, db.mark, mark{id: db.found.id, gen: db.found.gen, group: newest,
		relaxed: r.relaxed})
	if err == nil {
		err = db.fs.SyncDir(filepath.Dir(db.path))
	}
	// No record is applied meanwhile, and a checkpoint that was under way would set the generation back.
	r.log.At(func(replog.Position) {
		db.startCheckpoint()
		if failed := db.awaitCheckpoint(); failed != nil && db.layers.Load().frozen != nil {
			err = errors.Join(err, failed)
		}
		if err == nil {
			// After the mark is durable: from here on the file needs it, since nothing else says where the log must not end.
			// The generation tells copies of an earlier stop from this file.
			err = db.transact(func(tx *bolt.Tx) error { return putProgress(tx, db.gen, r.from.Last, false) })
			db.gen++
		}
		r.mark = m // applyRecord uses it
	})
	return err
}

// empty reports whether the file has no entries.
func (db *DB) empty() (empty bool, err error) {
	empty = true
	err = db.bolt.View(func(tx *bolt.Tx) error {
		for _, name := range db.buckets {
			b := tx.Bucket([]byte(name))
			if b == nil {
				continue
			}
			if k, _ := b.Cursor().First(); k != nil {
				empty = false
			}
		}
		return nil
	})
	return empty, err
}

func (db *DB) putReplica(tx *bolt.Tx, from, ahead replog.Position) error {
	err := putFormat(tx, replicaKey, encodeReplica(db.replica.id, from, ahead))
	if db.replica.private {
		err = errors.Join(err, putFormat(tx, privateKey, nil))
	}
	return err
}

// roomPause is the interval for trying again to write a memtable to a file that cannot be written.
const roomPause = 500 * time.Millisecond

// applyRecord makes a record of the replicated log visible. The log calls it for one record at a time.
func (db *DB) applyRecord(payload []byte, p replog.Position) error {
	whole, at := payload, int64(0)
	restore := func(w Write) error {
		if string(w.Key) == stampKey {
			at = stampOf(w)
		}
		return db.restore(w)
	}
	// A record cannot be skipped or refused: all nodes apply the same ones. So an error that may pass is waited out
	// here, while the log holds its lock and applies nothing else.
	for {
		err := db.makeRoom(memtableWait)
		if err == nil {
			if payload, err = splitAttached(whole, restore); err == nil {
				break
			}
		}
		// A full disk: this node waits, the others go on.
		if cause := db.failed.Load(); cause != nil || db.isClosed() || errors.Is(err, ErrFormat) {
			return err
		}
		// The log offers the record again. Waiting here would keep its lock, and with it every read of this node.
		if !db.replica.private {
			return fmt.Errorf("%w: %w", replog.ErrLater, err)
		}
		time.Sleep(roomPause)
	}
	// The sequence alone does not identify a record: a stream that lost its end numbers new messages the same way.
	if r := db.replica; p.Last == r.ahead.Last && p.Chain != r.ahead.Chain {
		return fmt.Errorf("%w: the file has the writes of another record %d", ErrOtherLog, p.Last)
	}
	m := db.layers.Load().active
	prev := m.newest
	if err := m.insertPayload(db, payload, p.Last); err != nil {
		return err
	}
	m.position = p
	m.attached += len(whole) - len(payload)
	if db.archive != nil {
		if !db.replica.private {
			at = p.At
		}
		// Before it can be read: what a pin has, the archive has.
		db.archive.Group(Group{Prev: prev, Number: p.Last, At: at, Payload: payload})
	}
	// Readers see the record as a whole, once its number is published.
	m.publish(p.Last)
	if k := db.replica.mark; k != nil {
		k.put(k.last.gen, p.Last, k.last.allocated, db.replica.relaxed)
	}
	if fn := db.replica.applied; fn != nil {
		return readPayload(payload, func(b Bucket, w Write) error {
			if !w.Deleted() {
				w.Value = db.strip(w.Value)
			}
			fn(b, w)
			return nil
		})
	}
	return nil
}

func (db *DB) isClosed() bool {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.closed
}

// replayReplicated applies the records of the replicated log that the file lacks.
func (db *DB) replayReplicated(replay func(replog.Position, func([]byte, replog.Position) error) error) error {
	m := db.layers.Load().active
	m.publish(db.found.from.Last)
	err := replay(db.found.from, func(payload []byte, p replog.Position) error {
		payload, err := splitAttached(payload, db.restore)
		if err == nil {
			err = m.insertPayload(db, payload, p.Last)
		}
		m.publish(p.Last)
		return err
	})
	if at := m.visible.Load(); err == nil && at < db.found.ahead.Last {
		err = fmt.Errorf("%w: the log ends at record %d, and %s has writes up to record %d", ErrOtherLog, at,
			filepath.Base(db.path), db.found.ahead.Last)
	}
	return err
}

// Unfinished reports whether the file was found with a part of the writes of a checkpoint that was interrupted, so that
// its records may not fit to each other: a view that follows a replicated log applies that from before the checkpoint.
func (db *DB) Unfinished() bool { return db.found.from != db.found.ahead }

// EndOfLog returns the last record that Options.Replay has read, and an ErrOtherLog if more were acknowledged.
func (db *DB) EndOfLog() (last uint64, err error) {
	last = db.layers.Load().active.visible.Load()
	return last, db.mark.checkEnd(db.found, db.path, last)
}

// LogID returns the identity of the replicated log, "" for a store of a single machine.
func (db *DB) LogID() string {
	if db.replica == nil || db.replica.local {
		return ""
	}
	return db.replica.log.ID()
}

// Replication returns the state of the replicated log; ok is false for a store of a single machine.
func (db *DB) Replication() (s replog.Status, ok bool) {
	if db.replica == nil {
		return s, false
	}
	return db.replica.log.Status(), true
}
