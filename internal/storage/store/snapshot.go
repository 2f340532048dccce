package store

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/lazuli-storage/lazuli/internal/storage/disk"
	"github.com/lazuli-storage/lazuli/internal/storage/replog"
)

// A snapshot in a replicated log is a sequence of frames: the length of a payload as uvarint, and the payload of a
// write set (log.go), values with their checksums. The frames have all entries of all buckets, each bucket in key
// order.
const (
	// frameSize is the size from which a frame ends, in bytes.
	frameSize = 256 << 10
	// maxFrame is the size of the largest frame: one entry may be longer than frameSize.
	maxFrame = MaxValueSize + MaxKeySize + 2*frameSize

	// restoreChunk is the size of a transaction that restores entries, in bytes.
	restoreChunk = 8 << 20

	// DefaultSnapshotLog is the default of Options.SnapshotLog.
	DefaultSnapshotLog = 256 << 20
	// snapshotCheck is the interval of comparing the log with Options.SnapshotLog, and snapshotTerm how long another node
	// may take for a snapshot.
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

// writeFrames writes all entries that tx sees.
func (db *DB) writeFrames(tx *Tx, w io.Writer) (err error) {
	defer func() {
		if v := recover(); v != nil {
			var failed bool
			if err, failed = db.failureOf(v); !failed {
				panic(v)
			}
		}
	}()
	flush := func(s *WriteSet) error {
		payload := s.appendPayload(nil)
		if _, err := w.Write(binary.AppendUvarint(nil, uint64(len(payload)))); err != nil {
			return err
		}
		_, err := w.Write(payload)
		return err
	}
	for _, name := range db.buckets {
		s := &WriteSet{}
		c := tx.Scan(name)
		for k, v := c.Seek(nil); k != nil; k, v = c.Next() {
			// The copy of an empty value must not be nil, which stands for a deletion.
			s.put(name, append([]byte(nil), k...), append([]byte{}, v...))
			if s.bytes >= frameSize {
				if err := flush(s); err != nil {
					return err
				}
				s = &WriteSet{}
			}
		}
		if s.bytes > 0 {
			if err := flush(s); err != nil {
				return err
			}
		}
	}
	return nil
}

// join makes sure that the log has everything after the position of the file at path. Otherwise it replaces the file by
// the last snapshot. A damaged file is renamed.
func join(path string, o Options) error {
	f, err := peek(path, o)
	switch {
	// The log and its snapshots have everything that the file had, so a view that others share is simply built again.
	// The only view of a log is never thrown away: its damage is reported.
	case !o.Private && (errors.Is(err, ErrDamaged) || errors.Is(err, ErrFormat)):
		if err := SetAside(path, "damaged"); err != nil {
			return err
		}
		f = format{}
	case err != nil:
		return err
	case f.hasData && f.logID != o.Log.ID(): // openReplica refuses it
		return nil
	}
	ctx := context.Background()
	// The usual case: the file goes on from its position, and needs no snapshot.
	if f.logID != "" {
		held, err := o.Log.Holds(ctx, f.from)
		if errors.Is(err, replog.ErrDiverged) && !o.Private { // the log has lost what this file has
			o.Log.Logger().Error("the state of this node is not that of the cluster; joining from a snapshot", "err", err)
			held, err = false, SetAside(path, "diverged")
		}
		if err != nil || held {
			return logError(err)
		}
	}
	// A private log is joined without a snapshot. A new file is right only if the log still begins with its first
	// message.
	if o.Private {
		if held, err := o.Log.Holds(ctx, f.from); err != nil || held {
			return logError(err)
		}
		return fmt.Errorf("%w: %s needs message %d of its log, which is not there any more: it is missing or older than "+
			"it was; restore it and the log from the same copy",
			ErrOtherLog, filepath.Base(path), f.from.Resume+1)
	}
	var restored error
	for range 3 { // a newer snapshot may replace the one that is being read
		restored = o.Log.ReadSnapshot(ctx,
			func(p replog.Position, r io.Reader) error { return restore(path, o, p, bufio.NewReader(r)) })
		// The new file was written under another name, so a join that is interrupted leaves the old one complete.
		if restored == nil {
			return errors.Join(os.Rename(path+joinSuffix, path), o.FS.SyncDir(filepath.Dir(path)))
		}
		if !errors.Is(restored, replog.ErrDamaged) {
			break
		}
	}
	// Without a snapshot, the log must have all records from the first one on. openReplica then applies them.
	if errors.Is(restored, replog.ErrNoSnapshot) {
		if held, err := o.Log.Holds(ctx, replog.Position{}); err != nil || held {
			return logError(err)
		}
	}
	return fmt.Errorf("%w: joining from a snapshot: %w", ErrUnavailable, restored)
}

// SetAside renames the closed file at path, so that the next Open with Options.Log begins with a snapshot. reason
// becomes part of the name.
func SetAside(path, reason string) error {
	aside := path + "." + reason + "-" + strconv.FormatInt(time.Now().UnixNano(), 10)
	return errors.Join(os.Rename(path, aside), disk.OS.SyncDir(filepath.Dir(path)))
}

// joinSuffix is the end of the name of a file that is being restored.
const joinSuffix = "-joining"

// peek reads the format of a file; the zero value for one that does not exist.
func peek(path string, o Options) (format, error) {
	if info, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0 {
		return format{}, nil
	}
	db, err := Open(path, Options{Buckets: o.Buckets, ReadOnly: true, LockTimeout: o.LockTimeout})
	if err != nil {
		return format{}, err
	}
	f := db.found
	empty, err := db.empty()
	f.hasData = !empty
	return f, errors.Join(err, db.Close())
}

// restore writes a new file from a snapshot.
func restore(path string, o Options, p replog.Position, r *bufio.Reader) error {
	path += joinSuffix
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return createFile(path, o.Buckets, r, func(tx *bolt.Tx) error {
		return errors.Join(putProgress(tx, 0, p.Last, true), putFormat(tx, replicaKey, encodeReplica(o.Log.ID(), p, p)))
	})
}

// restoreAll restores all frames, to buckets that it creates.
func restoreAll(b *bolt.DB, buckets []Bucket, r *bufio.Reader) error {
	err := b.Update(func(tx *bolt.Tx) error {
		for _, name := range buckets {
			if _, err := tx.CreateBucket([]byte(name)); err != nil {
				return err
			}
		}
		return putBuckets(tx)
	})
	for more := true; more && err == nil; {
		err = b.Update(func(tx *bolt.Tx) (err error) {
			more, err = restoreSome(tx, r)
			return err
		})
	}
	return err
}

// restoreSome restores frames until a transaction is large enough. more is false at the end.
func restoreSome(tx *bolt.Tx, r *bufio.Reader) (more bool, err error) {
	for n := uint64(0); n < restoreChunk; {
		size, err := binary.ReadUvarint(r)
		if errors.Is(err, io.EOF) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		// Before the allocation: a damaged length could ask for any amount of memory.
		if size > maxFrame {
			return false, fmt.Errorf("%w: a frame of %d bytes", replog.ErrDamaged, size)
		}
		payload := make([]byte, size)
		if _, err := io.ReadFull(r, payload); err != nil {
			return false, err
		}
		if err := readPayload(payload, func(name Bucket, w Write) error { return restoreEntry(tx, name, w) }); err != nil {
			return false, err
		}
		n += size
	}
	return true, nil
}

func restoreEntry(tx *bolt.Tx, name Bucket, w Write) error {
	b := tx.Bucket([]byte(name))
	if b == nil {
		return fmt.Errorf("%w: the snapshot has bucket %q", ErrFormat, string(name))
	}
	// Only the parts of an archive have deletions: they follow a state that has the key.
	if w.Deleted() {
		return b.Delete(w.Key)
	}
	// ErrDamaged makes join read the snapshot once more, as it may have been replaced meanwhile.
	if _, ok := unseal(bucketSeed(name), w.Key, w.Value); !ok {
		return fmt.Errorf("%w: the snapshot has an entry of bucket %q with a wrong checksum", replog.ErrDamaged, string(name))
	}
	b.FillPercent = fillPercent
	return b.Put(w.Key, w.Value)
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
