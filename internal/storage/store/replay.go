package store

import (
	"errors"
	"fmt"
	"os"
)

// replay reads the part of the log that the file lacks into the active memtable.
//
// A log ends at the first bytes that are not a record of its generation. That is right if a crash cut off the last
// record, and wrong if the bytes of an earlier record are damaged. In a durable store each record is synced before the
// next one is written, so a record after a bad one distinguishes the two cases. So do gaps in the numbers of groups,
// and a missing file if the store was not closed.
func (db *DB) replay(f format) (err error) {
	// At most two generations can follow the file: that of the frozen memtable and that of the active one.
	if err := checkNewer(db.path, f.gen+2); err != nil {
		return err
	}
	var marked bool
	if db.mark, marked, err = readMark(db.path); err != nil {
		return err
	}
	f.closed = f.closed || f.version == 0 // it was being created
	// The mark exists while a database is open. Without it nothing says where the log must end.
	if !marked && !f.closed {
		return missingMark(db.path)
	}
	m := db.layers.Load().active
	m.publish(f.group)
	for gen := f.gen + 1; gen <= f.gen+2 && f.logID == ""; gen++ {
		records, torn, err := readLog(db.path, gen)
		// Close removes the files one by one after it has noted that the file needs none.
		if errors.Is(err, os.ErrNotExist) && f.closed {
			continue
		}
		if err != nil {
			if errors.Is(err, os.ErrNotExist) {
				return missingLog(db.path, gen)
			}
			return err
		}
		for _, r := range records {
			// Groups have no gaps, also from one generation to the next. A gap means that a whole record was overwritten or
			// lost.
			if r.group != m.newest+1 {
				return r.damaged(db.path, fmt.Sprintf("group %d follows group %d", r.group, m.newest))
			}
			if err := m.insertPayload(db, r.payload, r.group); err != nil {
				return r.damaged(db.path, err.Error())
			}
			m.publish(r.group)
			if db.archive != nil {
				if err := db.archiveRecord(r); err != nil {
					return r.damaged(db.path, err.Error())
				}
			}
		}
		if torn > 0 {
			// A warning only if all other checks pass; otherwise the error says what is wrong.
			defer func() {
				if err == nil {
					db.logger.Warn("a log ended in an unacknowledged record after a crash: it was truncated", "file",
						logPath(db.path, gen), "bytes", torn)
				}
			}()
		}
	}
	if !marked || db.replica != nil || f.logID != "" { // see checkEnd
		return nil
	}
	if n := db.mark.lost(m.newest); n > 0 {
		db.logger.Error("a power failure has removed writes that were acknowledged without a sync", "file", db.path, "groups",
			n)
	}
	return db.mark.check(db.path, f, m.newest)
}

// archiveRecord hands a record of the log to the archive.
func (db *DB) archiveRecord(r logRecord) error {
	g := Group{Prev: r.group - 1, Number: r.group}
	var err error
	g.Payload, err = splitAttached(r.payload, func(w Write) error {
		if string(w.Key) == stampKey {
			g.At = stampOf(w)
		}
		return nil
	})
	if err == nil {
		db.archive.Group(g)
	}
	return err
}
