package blobsvc

import (
	"net/http"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
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

// errRootBlob: deleting the current version by its id. It is deleted as the blob, and then as a previous version.
var errRootBlob = fail(http.StatusForbidden, "OperationNotAllowedOnRootBlob", "The specified operation is not allowed on root blob.")

// deleteBlob: https://learn.microsoft.com/rest/api/storageservices/delete-blob
func (s *Service) deleteBlob(c *call) error {
	at, err := c.address()
	if err != nil {
		return err
	}
	mode, err := c.deleteSnapshots()
	if err != nil {
		return err
	}
	if mode != refuseSnapshots {
		if at.snapshot != 0 {
			return wire.InvalidHeader("x-ms-delete-snapshots", c.Header("X-Ms-Delete-Snapshots"))
		}
		if err := c.refuseVersion(); err != nil {
			return err
		}
	}
	permanently := false
	switch kind := c.Query.Get("deletetype"); kind {
	case "":
	case "permanent":
		permanently = true
	default:
		return invalidQuery("deletetype", kind)
	}
	if err := c.mayDelete(at, permanently); err != nil {
		return err
	}
	if permanently {
		return s.deletePermanently(c, at)
	}
	days := s.retentionDays(c.Account)
	var kept bool
	check := (*preconditions).checkDelete
	if !at.isBase() { // it has no lease
		check = (*preconditions).checkLeasing
	}
	err = s.updateAt(c, at, check, func(tx *store.Tx, gen, slot uint64, b *blobRecord) error {
		kept = days > 0 || at.isBase() && mode != onlySnapshots && s.staysVersion(c, b)
		if !at.isBase() {
			if slot == baseSlot {
				return errRootBlob
			}
			return s.remove(tx, c, gen, slot, days, b)
		}
		snapshots, err := snapshotsOf(tx, gen, c.blob, mode == refuseSnapshots)
		if err != nil {
			return err
		}
		if len(snapshots) > 0 && mode == refuseSnapshots {
			return errSnapshotsPresent
		}
		for _, slot := range snapshots {
			var snapshot blobRecord
			if err := getBlob(tx, gen, c.blob, slot, &snapshot); err != nil {
				return err
			}
			if err := s.remove(tx, c, gen, slot, days, &snapshot); err != nil {
				return err
			}
		}
		if mode == onlySnapshots {
			return nil
		}
		discardBlocks(tx, gen, c.blob)
		return s.remove(tx, c, gen, baseSlot, days, b)
	})
	if err != nil {
		return err
	}
	s.wakeCleaner()
	c.sendDeleteType(kept)
	return c.Status(http.StatusAccepted)
}

// mayDelete checks the permission for a deletion. That of a blob or snapshot, that of a version, and that of what was
// soft-deleted are three.
// https://learn.microsoft.com/rest/api/storageservices/create-service-sas#permissions-for-a-directory-container-or-blob
func (c *call) mayDelete(at address, permanently bool) error {
	need := auth.Need{On: auth.OnObject, All: "d"}
	if at.version != 0 {
		need.All = "x"
	}
	if permanently && c.identity.Mechanism == auth.SAS {
		need.All += "y"
	}
	return c.identity.Holds(need)
}

// remove deletes one record of the blob that c names: it stays as a previous version, or for days as soft-deleted, or not.
func (s *Service) remove(tx *store.Tx, c *call, gen, slot uint64, days int64, b *blobRecord) error {
	if err := b.mayGo(c.now()); err != nil {
		return err
	}
	key := blobKey(gen, c.blob, slot)
	staysVersion := slot == baseSlot && s.staysVersion(c, b)
	c.before.was(b, slot)
	if c.before.softDeleted = days > 0 && !staysVersion; staysVersion {
		c.before.version = retire(tx, gen, c.blob, *b)
	}
	s.note(tx, c, eventDeleted, slot, b)
	if slot == baseSlot {
		s.unindexTags(tx, c.Account, gen, c.blob, b)
	}
	if staysVersion {
		tx.Delete(blobsBucket, key)
		return nil
	}
	if days > 0 {
		b.deleted, b.keptDays = c.now(), days
		s.bury(tx, gen, c.blob, slot, b)
		return nil
	}
	tx.Delete(blobsBucket, key)
	c.freed += b.length
	b.content.drop(tx)
	return nil
}

// snapshotsOf returns the slots of a blob's snapshots, oldest first, without deleted ones; the first alone if one is
// enough to know.
func snapshotsOf(tx *store.Tx, gen uint64, name string, one bool) (slots []uint64, err error) {
	err = eachSlot(tx, gen, name, func(slot uint64, b *blobRecord) (more bool, err error) {
		if b.isSnapshot(slot) && b.deleted == 0 {
			slots = append(slots, slot)
		}
		return len(slots) == 0 || !one, nil
	})
	return slots, err
}
