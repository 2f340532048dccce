package blob

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"

	"github.com/lazuli-storage/lazuli/internal/state/blob/content"
	"github.com/lazuli-storage/lazuli/internal/state/blob/lease"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/state/blob/tree"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// Append and Flush write a file as uncommitted blocks and a block list, whose block IDs are positions.

// positionID is the ID of the block at a position. The IDs of one file are of one length, and their order is that of
// the positions.
func positionID(at int64) string {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(at))
	return hex.EncodeToString(b[:])
}

func positionOf(id string) (int64, bool) {
	b, err := hex.DecodeString(id)
	if err != nil || len(b) != 8 {
		return 0, false
	}
	return int64(binary.BigEndian.Uint64(b)), true
}

// PathLease holds what an append or a flush does with the lease of the file.
type PathLease struct {
	// Acquire acquires a lease with Proposed and Duration before the write, Renew renews the one of the request; Release
	// releases it after the write.
	Acquire, Renew, Release bool
	Proposed                string
	Duration                int64
}

// before checks the lease of b and acquires or renews it.
func (q *PathLease) before(b *record.Blob, id string, now ticks.Ticks) (lease string, err error) {
	switch {
	case q.Acquire:
		if b.Lease, err = b.Lease.Acquire(q.Proposed, q.Duration, now); err != nil {
			return id, err
		}
		return q.Proposed, nil
	case q.Renew && id != "":
		if b.Lease, err = b.Lease.Renew(id, now); err != nil {
			return id, err
		}
	}
	return id, nil
}

// appending is w with the permissions that an append and a flush need.
//
// https://learn.microsoft.com/azure/storage/blobs/data-lake-storage-access-control#common-scenarios-related-to-acl-permissions
func appending(w *Write) *Write {
	a := *w
	a.needs = needsAppend
	return &a
}

// Append stores uploaded content at a position of a file, uncommitted until a flush. An append blob takes it at its
// end, committed.
func (s Paths) Append(w *Write, position int64, up *content.Upload, with PathLease) (Result, error) {
	return s.update(appending(w), func(c *change) error {
		var b record.Blob
		if err := c.openFile(&b, &with, ErrNotLakeAppend); err != nil {
			return err
		}
		if err := b.Encryption.Matches(up.Encryption()); err != nil {
			return err
		}
		c.result.Encryption = b.Encryption
		if b.Kind == record.AppendBlob {
			if err := c.extendAt(&b, position, up); err != nil {
				return err
			}
			c.changes(record.EventContent, &b)
			return nil
		}
		// The block itself changes nothing in the record of the file; only an action on the lease has to be stored.
		if with != (PathLease{}) {
			c.put(&b)
		}
		return c.stage(positionID(position), up)
	})
}

// extendAt is extend for content that has a position.
func (c *change) extendAt(b *record.Blob, position int64, up *content.Upload) error {
	if position != b.Length {
		return ErrAppendOffset
	}
	return c.extend(b, up)
}

// CheckAppend reports early whether content is worth receiving: it fails as Append would.
func (s Paths) CheckAppend(w *Write, with PathLease) error {
	return s.db.View(func(tx *store.Tx) error {
		c := change{Write: appending(w), s: s.core, tx: tx, now: ticks.Of(w.Now)}
		return c.openFile(new(record.Blob), &with, ErrNotLakeAppend)
	})
}

// openFile reads the file that is written to, and checks its lease. It fails with notLake for a file that the Blob
// endpoint wrote.
func (c *change) openFile(b *record.Blob, with *PathLease, notLake error) error {
	if err := c.enterExisting(); err != nil {
		return err
	}
	if err := c.base(b); err != nil {
		return err
	}
	if err := c.mayChange(b); err != nil {
		return err
	}
	switch {
	case b.IsDirectory():
		return tree.ErrPathConflict
	case !b.Lake:
		return notLake
	}
	if b.FinishRehydration(c.now); b.Tier == record.ArchiveTier {
		return ErrArchived
	}
	id, err := with.before(b, c.If.LeaseID, c.now)
	if err != nil {
		return err
	}
	// Acquire and Renew have judged the lease; without them, or without an ID to renew, it is checked as for any write.
	if id == "" || !with.Acquire && !with.Renew {
		if err := b.Lease.CheckWrite(id, c.now, &lease.OfBlob); err != nil {
			return err
		}
	}
	return c.unlock(b)
}

// Flush is one flush of a file.
type Flush struct {
	// Position is the length of the file afterwards.
	Position int64
	// Retain keeps the content after Position, which was appended before, uncommitted.
	Retain bool
	Lease  PathLease
	// Headers, if set, changes the properties of the file.
	Headers func(*record.Headers)
	// Append, unless nil, is content that is stored at AppendAt in the same change.
	Append   *content.Upload
	AppendAt int64
}

// Flush makes what was appended up to a position the content of the file.
func (s Paths) Flush(w *Write, f *Flush) (out record.Blob, err error) {
	_, err = s.update(appending(w), func(c *change) error {
		var b record.Blob
		notLake := ErrNotLakeFlush
		if f.Append != nil {
			notLake = ErrNotLakeAppend
		}
		if err := c.openFile(&b, &f.Lease, notLake); err != nil {
			return err
		}
		conditions := c.If
		// openFile has checked the lease, which may be another one by now: the request may have acquired it.
		conditions.LeaseID = ""
		// The file exists, or openFile would have failed.
		if conditions.IfNoneMatch == "*" {
			return ErrBlobExists
		}
		if err := conditions.checkConditions(&b); err != nil {
			return err
		}
		if err := b.CheckChangeable(); err != nil {
			return err
		}
		// First the content that comes with the flush, so that commitTo finds it among what was appended.
		if f.Append != nil {
			if err := b.Encryption.Matches(f.Append.Encryption()); err != nil {
				return err
			}
			if b.Kind == record.AppendBlob {
				err = c.extendAt(&b, f.AppendAt, f.Append)
			} else {
				err = c.stage(positionID(f.AppendAt), f.Append)
			}
			if err != nil {
				return err
			}
		}
		if err := c.commitTo(&b, f); err != nil {
			return err
		}
		if f.Headers != nil {
			f.Headers(&b.Headers)
		}
		b.Lease = b.Lease.AfterWrite(c.now)
		if f.Lease.Release {
			b.Lease = lease.Lease{}
		}
		if c.Policy.AccessTimes {
			b.Accessed = c.at
		}
		c.result.Encryption = b.Encryption
		c.changes(record.EventCreated, &b)
		out = b
		return nil
	})
	return out, err
}

// commitTo makes the appended blocks up to the position of f part of b.
func (c *change) commitTo(b *record.Blob, f *Flush) error {
	if f.Position < b.Length {
		return ErrFlushPosition
	}
	key := record.PendingKey(c.Item)
	v := c.tx.Get(record.PendingBucket, key)
	// A flush at the present length is allowed without appended content, as for properties alone.
	if v == nil {
		if f.Position != b.Length {
			return ErrFlushPosition
		}
		return nil
	}
	pending, err := record.DecodePending(v)
	if err != nil {
		return err
	}
	var list []content.Piece
	err = b.Content.Walk(c.tx, 0, b.Length, b.Length, func(p *content.Piece) error {
		list = append(list, *p)
		return nil
	})
	if err != nil {
		return err
	}
	end := b.Length
	scope := record.IDPrefix(pending.Set)
	var taken [][]byte
	cur := c.tx.Cursor(record.BlocksBucket)
	// IDs are positions and sort as such. Each block must begin where the content before it ends: end is the length so
	// far.
	for k, v := cur.Seek(scope); k != nil && bytes.HasPrefix(k, scope) && end < f.Position; k, v = cur.Next() {
		_, id, err := record.ParseBlockKey(k)
		if err != nil {
			return err
		}
		p, err := record.DecodeBlock(v)
		if err != nil {
			return err
		}
		at, ok := positionOf(id)
		if !ok || at != end {
			if ok && at < b.Length { // of content that was flushed meanwhile
				continue
			}
			return ErrFlushPosition
		}
		if err := p.Encryption.Matches(b.Encryption); err != nil {
			return err
		}
		p.Block = id
		list = append(list, p)
		taken = append(taken, bytes.Clone(k))
		end += p.Length
	}
	if end != f.Position {
		return ErrFlushPosition
	}
	if len(list) > MaxCommittedBlocks {
		return ErrBlockListTooLong
	}
	// record.LayOut has stored the pieces under a new ID, so the old list loses the reference of this record.
	old := b.Content
	b.Content, b.Length = record.LayOut(c.tx, list)
	old.Drop(c.tx)
	if !f.Retain || int64(len(taken)) == pending.Count {
		c.discardBlocks()
		return nil
	}
	// The count in the pending record must stay that of the blocks of the set.
	for _, k := range taken {
		c.tx.Delete(record.BlocksBucket, k)
	}
	pending.Count -= int64(len(taken))
	c.tx.Put(record.PendingBucket, key, pending.Encode())
	return nil
}

// Set changes properties of a file or directory: its metadata unless it is nil, and its headers.
func (s Paths) Set(w *Write, metadata *[]record.Meta, headers func(*record.Headers)) (out record.Blob, err error) {
	_, err = s.updateBlob(w, (*Preconditions).checkWrite, func(c *change, b *record.Blob) error {
		if err := c.unlock(b); err != nil {
			return err
		}
		if b.Tier == record.ArchiveTier {
			return ErrArchived
		}
		if metadata != nil {
			b.Metadata = *metadata
		}
		if headers != nil {
			headers(&b.Headers)
		}
		c.changes(record.EventProperties, b)
		out = *b
		return nil
	})
	return out, err
}
