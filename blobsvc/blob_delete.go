package blobsvc

import (
	"bytes"
	"net/http"

	"github.com/lazuli-storage/lazuli/internal/store"
	"github.com/lazuli-storage/lazuli/internal/wire"
)

// What Delete Blob does with snapshots.
type deleteSnapshots byte

const (
	refuseSnapshots deleteSnapshots = iota
	includeSnapshots
	onlySnapshots
)

func (c *call) deleteSnapshots() (deleteSnapshots, error) {
	switch s := c.Header("X-Ms-Delete-Snapshots"); s {
	case "":
		return refuseSnapshots, nil
	case "include":
		return includeSnapshots, nil
	case "only":
		return onlySnapshots, nil
	default:
		return 0, wire.InvalidHeader("x-ms-delete-snapshots", s)
	}
}

// deleteBlob: https://learn.microsoft.com/rest/api/storageservices/delete-blob
func (s *Service) deleteBlob(c *call) error {
	slot, err := c.slot()
	if err != nil {
		return err
	}
	mode, err := c.deleteSnapshots()
	if err != nil {
		return err
	}
	if kind := c.Query.Get("deletetype"); kind != "" {
		if kind != "permanent" {
			return invalidQuery("deletetype", kind)
		}
		return s.deletePermanently(c, slot)
	}
	days := s.retentionDays(c.Account)
	if slot != baseSlot && mode != refuseSnapshots {
		return wire.InvalidHeader("x-ms-delete-snapshots", c.Header("X-Ms-Delete-Snapshots"))
	}
	check := (*preconditions).checkWrite
	if slot != baseSlot { // it has no lease
		check = (*preconditions).checkLeasing
	}
	err = s.updateSlot(c, slot, check, func(tx *store.Tx, gen uint64, b *blobRecord) error {
		if slot != baseSlot {
			s.remove(tx, c, gen, slot, days, b)
			return nil
		}
		snapshots, err := snapshotsOf(tx, gen, c.blob, mode == refuseSnapshots)
		if err != nil {
			return err
		}
		if len(snapshots) > 0 && mode == refuseSnapshots {
			return errSnapshotsPresent
		}
		for _, at := range snapshots {
			var snapshot blobRecord
			if err := getBlob(tx, gen, c.blob, at, &snapshot); err != nil {
				return err
			}
			s.remove(tx, c, gen, at, days, &snapshot)
		}
		if mode != onlySnapshots {
			s.remove(tx, c, gen, baseSlot, days, b)
			discardBlocks(tx, gen, c.blob)
		}
		return nil
	})
	if err != nil {
		return err
	}
	s.wakeCleaner()
	c.sendDeleteType(days > 0)
	return c.Status(http.StatusAccepted)
}

// remove deletes one record of the blob that c names; with days, it is kept for that time.
func (s *Service) remove(tx *store.Tx, c *call, gen, slot uint64, days int64, b *blobRecord) {
	s.note(tx, c, eventDeleted, slot, b)
	if slot == baseSlot {
		s.unindexTags(tx, c.Account, gen, c.blob, b)
	}
	if days > 0 {
		b.deleted, b.keptDays = c.now(), days
		s.bury(tx, gen, c.blob, slot, b)
		return
	}
	tx.Delete(blobsBucket, blobKey(gen, c.blob, slot))
	c.freed += b.length
	b.content.drop(tx)
}

// snapshotsOf returns the slots of a blob's snapshots, oldest first, without deleted ones; the first alone if one is
// enough to know.
func snapshotsOf(tx *store.Tx, gen uint64, name string, one bool) ([]uint64, error) {
	var slots []uint64
	scope := namePrefix(gen, name)
	cur := tx.Cursor(blobsBucket)
	for k, v := cur.Seek(scope); k != nil && bytes.HasPrefix(k, scope); k, v = cur.Next() {
		_, _, slot, err := parseBlobKey(k)
		if err != nil {
			return nil, err
		}
		if slot == baseSlot {
			break
		}
		var b blobRecord
		if err := decodeBlobHead(v, &b); err != nil {
			return nil, err
		}
		if b.deleted != 0 {
			continue
		}
		if slots = append(slots, slot); one {
			break
		}
	}
	return slots, nil
}
