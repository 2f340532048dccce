package store

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"time"
)

// attachedBucket stands for attachments in the payload of a record of the log. Releases before attachments refuse a log
// that has them, as they refuse every unknown bucket.
const attachedBucket Bucket = "\x00attached"

// attachedSize is the size of the attachments in the log from which they are synced and dropped, in bytes. It limits
// the size of the log and what Open has to restore.
const attachedSize = 32 << 20

// Attach adds bytes to the log's record of the transaction: they are durable when Update returns. Afterwards
// Options.Attachments has them. The transaction does not see them. The caller must not modify the slices before Update
// returns.
//
// It serves content whose place was chosen before the transaction: instead of a sync of its own, the content shares
// that of the log.
//
// Attach panics without Options.Attachments.
func (tx *Tx) Attach(key, value []byte) {
	if tx.db.attachments == nil {
		panic("store: Attach without Options.Attachments")
	}
	tx.writes.attached = append(tx.writes.attached, Write{key, value})
	tx.writes.bytes += len(key) + len(value)
}

// appendAttached encodes the attachments of the write set. They have no checksums besides that of the record.
func (s *WriteSet) appendAttached(p []byte) []byte {
	if len(s.attached) == 0 {
		return p
	}
	p = binary.AppendUvarint(p, uint64(len(attachedBucket)))
	p = append(p, attachedBucket...)
	p = binary.AppendUvarint(p, uint64(len(s.attached)))
	for _, w := range s.attached {
		p = binary.AppendUvarint(p, uint64(len(w.Key)))
		p = append(p, w.Key...)
		p = binary.AppendUvarint(p, uint64(len(w.Value))+1)
		p = append(p, w.Value...)
	}
	return p
}

// stampKey is the key of the attachment with the time of a group, 8 bytes, little-endian: see Archive.
const stampKey = "\x00at"

// stampOf returns the time in an attachment with stampKey, 0 if it has none.
func stampOf(w Write) int64 {
	if len(w.Value) != 8 {
		return 0
	}
	return int64(binary.LittleEndian.Uint64(w.Value))
}

// maxScratch is the maximum size of the buffer that is kept for the next record, in bytes.
const maxScratch = 1 << 20

// record encodes a write set for the log, with space for the log's header. payload is the part without attachments,
// which the memtable keeps; so attachments do not stay in memory. The record is valid until the next call. Only the
// leader may call record.
func (db *DB) record(s *WriteSet) (record, payload []byte) {
	if len(s.attached) == 0 || db.log == nil {
		record = s.appendPayload(make([]byte, logHeaderSize, logHeaderSize+s.room()))
		return record, record[logHeaderSize:]
	}
	record = s.appendPayload(append(db.scratch[:0], make([]byte, logHeaderSize)...))
	payload = bytes.Clone(record[logHeaderSize:])
	record = s.appendAttached(record)
	if db.scratch = record; cap(record) > maxScratch {
		db.scratch = nil
	}
	return record, payload
}

// splitAttached returns the part of a payload without attachments, and calls fn with each attachment. The rest shares
// no memory with a payload that has attachments, so that they do not stay in memory.
func splitAttached(payload []byte, fn func(Write) error) (rest []byte, err error) {
	if !bytes.Contains(payload, []byte(attachedBucket)) {
		return payload, nil
	}
	d := decoder{p: payload}
	for len(d.p) > 0 {
		at := len(payload) - len(d.p)
		attached := Bucket(d.bytes(d.uvarint())) == attachedBucket
		if attached && rest == nil { // they come last
			rest = bytes.Clone(payload[:at])
		}
		for n := d.uvarint(); n > 0 && !d.bad; n-- {
			w := Write{Key: d.bytes(d.uvarint())}
			if n := d.uvarint(); n > 0 {
				w.Value = d.bytes(n - 1)
			}
			if attached && !d.bad {
				if err := fn(w); err != nil {
					return nil, err
				}
			}
		}
		if d.bad {
			return nil, errPayload
		}
	}
	if rest == nil {
		rest = payload
	}
	return rest, nil
}

// restore passes an attachment of the log on.
func (db *DB) restore(w Write) error {
	switch {
	case string(w.Key) == stampKey:
	case string(w.Key) == holdKey:
		if len(w.Value) == 8 {
			db.holds.add(binary.LittleEndian.Uint64(w.Value), time.Now())
		}
	case db.attachments != nil:
		if err := db.attachments.Restore(w.Key, w.Value); err != nil {
			return fmt.Errorf("restore an attachment: %w", err)
		}
	case !db.readOnly:
		return fmt.Errorf("%w: the log has attachments, and nothing takes them", ErrFormat)
	}
	return nil
}

// syncAttached makes the attachments of the log durable elsewhere, so that the log may drop them.
func (db *DB) syncAttached() error {
	if db.attachments == nil {
		return nil
	}
	if err := db.attachments.Sync(); err != nil {
		err = fmt.Errorf("sync attachments: %w", err)
		db.failed.CompareAndSwap(nil, &err)
		return err
	}
	return nil
}
