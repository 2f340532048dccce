package maintain

import (
	"context"
	"errors"
	"time"

	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// Expired is a blob whose expiry time has come: where it is, and what its path leads to.
type Expired struct {
	Account, Container, Blob string
	Item                     record.Item
	Now                      time.Time
}

// ExpireFunc deletes an expired blob with its snapshots in a transaction that may run twice, as a request would: it
// stays as a version or soft-deleted if the account is set so. It returns how many bytes of content it freed.
type ExpireFunc func(tx *store.Tx, x *Expired) (freed int64, err error)

// ExpireBlobs deletes all blobs whose expiry time has come.
func (s *Maintenance) ExpireBlobs(ctx context.Context, now time.Time) error {
	return s.sweepDue(ctx, record.ExpiringBucket, now, func(tx *store.Tx, k, v []byte) (int64, error) {
		return s.expireEntry(tx, k[8:], v, now)
	})
}

// expireEntry deletes the blob of an entry that is due, if its record says so too.
func (s *Maintenance) expireEntry(tx *store.Tx, key, in []byte, now time.Time) (freed int64, err error) {
	it, slot, err := record.ParseBlobKey(key)
	if err != nil {
		return 0, err
	}
	account, container, err := record.ParseContainerKey(in)
	if err != nil {
		return 0, err
	}
	var b record.Blob
	at := ticks.Of(now)
	switch err := record.LoadBlob(tx, it, slot, &b); {
	case errors.Is(err, record.ErrBlobNotFound):
		return 0, nil
	case err != nil:
		return 0, err
	// The entry is out of date. An expiry time that was moved has another entry.
	case b.Deleted != 0 || b.Expires == 0 || b.Expires > at:
		return 0, nil
	}
	x := Expired{Account: account, Container: container, Blob: it.Name, Item: it, Now: now}
	// A tree has no path in its keys, and the container in the entry may have been renamed. In a flat container another
	// generation of the same name has other blobs.
	reachable := false
	if it.InTree() {
		if x.Account, x.Container, x.Blob, reachable, err = record.PathOf(tx, it.Inode()); err != nil {
			return 0, err
		}
	} else {
		current, err := record.GenerationOf(tx, account, container)
		reachable = err == nil && current == it.Generation
	}
	if !reachable || !b.Expired(at) { // what was deleted may be restored
		tx.Put(record.ExpiringBucket, record.ExpiryKey(at+record.Day/24, key), in) // check again in an hour
		return 0, nil
	}
	return s.expire(tx, &x)
}
