package blobsvc

import (
	"context"
	"encoding/binary"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// A blob with an expiry time is deleted when it has come, as Delete Blob with its snapshots would: it stays as a version or
// soft-deleted if that is how the account is set. The expiring bucket has such blobs in the order of their times; entries that
// are out of date are found so when they are due. Whoever asks for anything after the time finds the blob gone, for what is due
// is removed before a request is served; the background removes what nobody asks for.

// expirer knows when the next blob expires.
type expirer struct {
	next atomic.Int64 // in ticks, 0 for never
	mu   sync.Mutex   // held while due blobs are removed
}

// errExpiryPassed: the blob would have expired already.
func errExpiryPassed(value string) error {
	return wire.InvalidHeader("x-ms-expiry-time", value)
}

// expiry reads x-ms-expiry-option and x-ms-expiry-time for a blob of the given creation time; 0 for never. given is false if
// the request says nothing about it.
func (c *call) expiry(created ticks.Ticks) (at ticks.Ticks, given bool, err error) {
	option, value := c.Header("X-Ms-Expiry-Option"), c.Header("X-Ms-Expiry-Time")
	if option == "" {
		if value != "" {
			return 0, false, wire.MissingHeader("x-ms-expiry-option")
		}
		return 0, false, nil
	}
	base := c.now()
	switch option {
	case "NeverExpire":
		if value != "" {
			return 0, true, wire.InvalidHeader("x-ms-expiry-time", value)
		}
		return 0, true, nil
	case "Absolute":
		t, err := http.ParseTime(value)
		if err != nil {
			return 0, true, wire.InvalidHeader("x-ms-expiry-time", value)
		}
		at = ticks.Of(t)
	case "RelativeToCreation":
		base = created
		fallthrough
	case "RelativeToNow":
		// As much as leaves room for the sum.
		ms, err := strconv.ParseInt(value, 10, 64)
		if err != nil || ms <= 0 || ms > int64(1<<62)/10_000 {
			return 0, true, wire.InvalidHeader("x-ms-expiry-time", value)
		}
		at = base + ticks.Ticks(ms*int64(time.Millisecond/100))
	default:
		return 0, true, wire.InvalidHeader("x-ms-expiry-option", option)
	}
	if at <= c.now() || at > maxExpiry {
		return 0, true, errExpiryPassed(value)
	}
	return at, true, nil
}

// maxExpiry is the end of the year 9999, the last time that has a form in a header.
const maxExpiry ticks.Ticks = 3155378975999999999

// setBlobExpiry: https://learn.microsoft.com/rest/api/storageservices/set-blob-expiry
func (s *Service) setBlobExpiry(c *call) error {
	if c.Header("X-Ms-Expiry-Option") == "" {
		return wire.MissingHeader("x-ms-expiry-option")
	}
	changed := s.ticks.Next(c.Now)
	err := s.updateBlob(c, func(tx *store.Tx, gen uint64, b *Blob) error {
		var err error
		if b.Expires, _, err = c.expiry(b.Created); err != nil {
			return err
		}
		b.Changed = changed
		putBlob(tx, gen, c.blob, baseSlot, b)
		s.expireLater(tx, c, gen, b)
		c.expires = true
		s.note(tx, c, eventProperties, baseSlot, b)
		return nil
	})
	if err != nil {
		return err
	}
	c.sendVersion(changed)
	return c.Status(http.StatusOK)
}

func expiryKey(at ticks.Ticks, blob []byte) []byte {
	return append(binary.BigEndian.AppendUint64(make([]byte, 0, 8+len(blob)), uint64(at)), blob...)
}

// expireLater notes when the base blob b expires, if it does.
func (s *Service) expireLater(tx *store.Tx, c *call, gen uint64, b *Blob) {
	if b.Expires != 0 {
		tx.Put(expiringBucket, expiryKey(b.Expires, blobKey(gen, c.blob, baseSlot)), containerKey(c.Account, c.container))
	}
}

// expiryKnown finds out when the next blob expires, after something changed.
func (s *Service) expiryKnown() {
	_ = s.db.View(func(tx *store.Tx) error { // which fails only once the service is closed
		var at int64
		if k, _ := tx.Cursor(expiringBucket).Seek(nil); len(k) > 8 {
			at = int64(binary.BigEndian.Uint64(k))
		}
		s.expirer.next.Store(at)
		return nil
	})
}

// expireDue removes the blobs whose time has come. It costs nothing while there are none.
func (s *Service) expireDue() {
	next := s.expirer.next.Load()
	if next == 0 || ticks.Ticks(next) > ticks.Of(s.now()) {
		return
	}
	if err := s.expireBlobs(context.Background(), s.now()); err != nil {
		s.log.Error("removing expired blobs failed", "service", "blob", "err", err)
	}
}

// expireBlobs removes all blobs whose time had come at now.
func (s *Service) expireBlobs(ctx context.Context, now time.Time) error {
	s.expirer.mu.Lock()
	defer s.expirer.mu.Unlock()
	defer s.expiryKnown()
	freed, err := s.sweepDue(ctx, expiringBucket, now, func(tx *store.Tx, k, v []byte) (int64, error) {
		return s.expireOne(tx, k[8:], v, now)
	})
	if freed {
		s.wakeCleaner()
	}
	return err
}

// expireOne deals with the entry of a blob that is due: it removes the blob if its record says so, too.
func (s *Service) expireOne(tx *store.Tx, key, in []byte, now time.Time) (freed int64, err error) {
	gen, name, slot, err := parseBlobKey(key)
	if err != nil {
		return 0, err
	}
	account, container, err := parseContainerKey(in)
	if err != nil {
		return 0, err
	}
	c := s.background(account, container, string(name), "DeleteBlob", now)
	var b Blob
	switch err := getBlob(tx, gen, c.blob, slot, &b); {
	case err == errBlobNotFound:
		return 0, nil
	case err != nil:
		return 0, err
	case b.Expires == 0 || b.Expires > c.now():
		return 0, nil
	}
	at, err := containerGen(tx, account, container)
	gone := err != nil || at != gen                                               // deleted, but it may be restored
	if gone || b.checkDeletable(c.now()) != nil || b.Copy.Status == CopyPending { // look again later
		tx.Put(expiringBucket, expiryKey(c.now()+day/24, key), in)
		return 0, nil
	}
	snapshots, err := snapshotsOf(tx, gen, c.blob, false)
	if err != nil {
		return 0, err
	}
	days := s.retentionDays(account)
	for _, slot := range append(snapshots, baseSlot) {
		var b Blob
		if err := getBlob(tx, gen, c.blob, slot, &b); err != nil {
			return 0, err
		}
		if err := s.remove(tx, c, gen, slot, days, &b); err != nil {
			return 0, err
		}
	}
	discardBlocks(tx, gen, c.blob)
	return c.freed, nil
}

// background is a call that no client made.
func (s *Service) background(account, container, blob, operation string, now time.Time) *call {
	return &call{Request: &wire.Request{Service: wire.Blob, Account: account, Now: now, Operation: operation}, container: container, blob: blob}
}
