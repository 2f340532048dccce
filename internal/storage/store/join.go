package store

import (
	"bufio"
	"context"
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
			o.Log.Logger().Error("the state of this node differs from the cluster's; joining from a "+
				"snapshot", "err", err)
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
