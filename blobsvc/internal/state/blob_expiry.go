package state

import (
	"context"
	"encoding/binary"
	"errors"
	"time"

	"github.com/lazuli-storage/lazuli/internal/eventlog"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// A blob with an expiry time is deleted at that time, as Delete Blob with its snapshots would: it stays as a version or
// soft-deleted if the account is set so. The background deletes it (ExpireBlobs); the expiring bucket has such blobs in
// the order of their times, and entries that are out of date are recognised when they are due. From its expiry time on
// requests treat the blob as absent, whether the background has come to it or not: reads do not find it, and a write
// that takes its place deletes it first, in its own transaction.

// Expiry is the expiry time that a request sets.
type Expiry struct {
	// At is the time; 0 is never.
	At ticks.Ticks
	// AfterCreation, unless 0, is the time after the creation of the blob, in place of At.
	AfterCreation ticks.Ticks
}

// maxExpiry is the end of the year 9999, the last time that has a form in a header.
const maxExpiry ticks.Ticks = 3155378975999999999

// Of returns the expiry time of a blob that was created at a time. It fails with [ErrExpiry] unless the time is in the
// future; a time after the creation may have passed, as a live test of the SDK for Go shows.
func (e Expiry) Of(created, now ticks.Ticks) (ticks.Ticks, error) {
	at := e.At
	switch {
	case e.AfterCreation != 0:
		at = created + e.AfterCreation
	case at == 0:
		return 0, nil
	}
	if at <= now && e.AfterCreation == 0 || at > maxExpiry {
		return 0, ErrExpiry
	}
	return at, nil
}

// SetExpiry sets the expiry time of a blob.
func (s Blobs) SetExpiry(w *Write, e Expiry) (Result, error) {
	return s.updateBlob(w, (*Preconditions).checkWrite, func(c *change, b *Blob) (err error) {
		if b.IsDirectory() {
			return ErrIsDirectory
		}
		if b.Expires, err = e.Of(b.Created, c.now); err != nil {
			return err
		}
		c.put(b) // the entity tag and the time of the last change stay (recorded)
		c.note(eventProperties, b)
		c.result.Changed = b.Changed
		c.expireLater(b)
		return nil
	})
}

func expiryKey(at ticks.Ticks, blob []byte) []byte {
	return append(binary.BigEndian.AppendUint64(make([]byte, 0, 8+len(blob)), uint64(at)), blob...)
}

// expireLater records when the base blob b expires, if it does.
func (c *change) expireLater(b *Blob) {
	if b.Expires != 0 {
		c.tx.Put(expiringBucket, expiryKey(b.Expires, c.key(baseSlot)), containerKey(c.Account, c.Container))
	}
}

// expired reports whether b is a base blob whose expiry time has come. A protected blob, and the destination of a
// pending copy, stay until that has ended.
func (b *Blob) expired(now ticks.Ticks) bool {
	return b.Expires != 0 && b.Expires <= now && b.slot == baseSlot && b.Deleted == 0 &&
		b.Copy.Status != CopyPending && b.checkDeletable(now) == nil
}

// expireDue deletes the base blob if its expiry time has come.
func (c *change) expireDue() error {
	var b Blob
	switch err := loadBlob(c.tx, c.item, baseSlot, &b); {
	case errors.Is(err, ErrBlobNotFound):
		return nil
	case err != nil:
		return err
	case !b.expired(c.now):
		return nil
	}
	return c.expire()
}

// expire deletes the base blob with its snapshots and uncommitted blocks. It is a separate change in the transaction of
// c.
func (c *change) expire() (err error) {
	// The write that found the expired blob may have conditions, which do not concern this deletion: e has none, and
	// its event is that of a deletion.
	e := change{s: c.s, tx: c.tx, place: c.place, now: c.now, at: c.at, second: c.second,
		Write: &Write{Ref: c.Ref, Now: c.Now, Policy: c.Policy, Origin: eventlog.Origin{Operation: "DeleteBlob"}}}
	if err := e.expireAll(); err != nil {
		return err
	}
	if c.inTree() { // the path has no item any more
		if c.place, err = c.find(c.tx); err != nil {
			return err
		}
	}
	// update counts and reports for c alone.
	c.freed += e.freed
	c.eventLogged = c.eventLogged || e.eventLogged
	return nil
}

func (c *change) expireAll() error {
	if c.item.inTree() && c.Policy.RetentionDays > 0 {
		var b Blob
		if err := loadBlob(c.tx, c.item, baseSlot, &b); err != nil {
			return err
		}
		_, err := c.trash(&b, eventDeleted)
		return err
	}
	slots, err := c.snapshots(false)
	if err != nil {
		return err
	}
	if err := c.removeSlots(append(slots, baseSlot)); err != nil {
		return err
	}
	c.discardBlocks()
	return nil
}

// ExpireBlobs deletes all blobs whose expiry time has come.
func (s Maintenance) ExpireBlobs(ctx context.Context, now time.Time) error {
	return s.sweepDue(ctx, expiringBucket, now, func(tx *store.Tx, k, v []byte) (int64, error) {
		return s.expireEntry(tx, k[8:], v, now)
	})
}

// expireEntry deletes the blob of an entry that is due, if its record says so too.
func (s Maintenance) expireEntry(tx *store.Tx, key, in []byte, now time.Time) (freed int64, err error) {
	it, slot, err := parseBlobKey(key)
	if err != nil {
		return 0, err
	}
	account, container, err := parseContainerKey(in)
	if err != nil {
		return 0, err
	}
	var b Blob
	at := ticks.Of(now)
	switch err := loadBlob(tx, it, slot, &b); {
	case errors.Is(err, ErrBlobNotFound):
		return 0, nil
	case err != nil:
		return 0, err
	// The entry is out of date. An expiry time that was moved has another entry.
	case b.Deleted != 0 || b.Expires == 0 || b.Expires > at:
		return 0, nil
	}
	r := Ref{Account: account, Container: container, Blob: it.name}
	// A tree has no path in its keys, and the container in the entry may have been renamed. In a flat container another
	// generation of the same name has other blobs.
	reachable := false
	if it.inTree() {
		if r.Account, r.Container, r.Blob, reachable, err = pathOf(tx, it.inode()); err != nil {
			return 0, err
		}
	} else {
		current, err := containerGeneration(tx, account, container)
		reachable = err == nil && current == it.gen
	}
	if !reachable || !b.expired(at) { // what was deleted may be restored
		tx.Put(expiringBucket, expiryKey(at+day/24, key), in) // check again in an hour
		return 0, nil
	}
	w := Write{Ref: r, Now: now, Policy: s.policyOf(account)}
	c := change{Write: &w, s: s.core, tx: tx, place: place{item: it, path: r.Blob}, now: at}
	// As in update: without times of its own, a deleted file would count as deleted long ago, and be purged at once.
	c.at = s.stamp(tx, s.ticks.Next(now))
	c.second = s.stamp(tx, s.ticks.Next(now))
	err = c.expire()
	return c.freed, err
}
