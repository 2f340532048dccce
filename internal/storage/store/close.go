package store

import (
	"errors"
	"os"
	"path/filepath"
)

// Close waits for the running transactions, then closes the file. Calls of Update that are waiting for a commit are
// served; later calls of Update and View return ErrClosed. Closing twice is allowed.
func (db *DB) Close() error {
	db.mu.Lock()
	if db.closed {
		db.mu.Unlock()
		return nil
	}
	db.closed = true
	for db.leading || db.flying > 0 {
		db.idle.Wait()
	}
	db.mu.Unlock()

	if r := db.replica; r != nil {
		if r.stop != nil {
			r.stop()
		}
		r.log.Close()
		r.snapshots.Wait()
	}
	err := db.checkpointAll()
	err = errors.Join(err, db.closeFiles())
	if err == nil {
		err = db.removeLog()
	}
	if db.leftover {
		err = errors.Join(err, os.Remove(db.path))
	}
	return err
}

// checkpointAll writes everything from the log to the file, which then needs no log.
func (db *DB) checkpointAll() error {
	if db.readOnly || db.leftover || db.ephemeral {
		return nil
	}
	db.startCheckpoint() // again, if the last one failed
	if err := db.awaitCheckpoint(); err != nil {
		return err
	}
	if db.log == nil && db.replica == nil {
		return nil // nothing survives Close
	}
	if err := db.Failed(); err != nil {
		return err
	}
	m := db.layers.Load().active
	if db.replica != nil {
		m.position = db.replica.log.Position() // the messages since the last record need not be read again
	}
	return db.commit(m, db.gen, true)
}

// removeLog removes the log of a complete file.
func (db *DB) removeLog() error {
	names := []string{logPath(db.path, 0), logPath(db.path, 1), markPath(db.path), Witness(db.path)}
	if db.log == nil {
		if db.replica == nil || db.replica.mark == nil {
			return nil
		}
		names = names[2:]
	}
	for _, name := range names {
		if err := db.fs.Remove(name); err != nil {
			return err
		}
	}
	return db.fs.SyncDir(filepath.Dir(db.path))
}

// closeFiles closes the files that Open opened.
func (db *DB) closeFiles() error {
	db.readers.suspend() // for good
	err := db.bolt.Close()
	if db.pagesFile != nil {
		err = errors.Join(err, db.pagesFile.Close())
	}
	if db.log != nil {
		err = errors.Join(err, db.log.close())
	}
	if db.replica != nil && db.replica.mark != nil {
		err = errors.Join(err, db.replica.mark.close())
	}
	return err
}
