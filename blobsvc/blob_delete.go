package blobsvc

import (
	"net/http"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// What Delete Blob does with snapshots.
type DeleteSnapshots byte

const (
	RefuseSnapshots DeleteSnapshots = iota
	IncludeSnapshots
	OnlySnapshots
)

func (c *call) deleteSnapshots() (DeleteSnapshots, error) {
	switch s := c.Header("X-Ms-Delete-Snapshots"); s {
	case "":
		return RefuseSnapshots, nil
	case "include":
		return IncludeSnapshots, nil
	case "only":
		return OnlySnapshots, nil
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
	if mode != RefuseSnapshots {
		if at.Snapshot != 0 {
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
	check := (*Preconditions).checkDelete
	if !at.IsBase() { // it has no lease
		check = (*Preconditions).checkLeasing
	}
	err = s.updateAt(c, at, check, func(tx *store.Tx, gen, slot uint64, b *Blob) error {
		kept = days > 0 || at.IsBase() && mode != OnlySnapshots && s.staysVersion(c, b)
		if !at.IsBase() {
			if slot == baseSlot {
				return errRootBlob
			}
			return s.remove(tx, c, gen, slot, days, b)
		}
		snapshots, err := snapshotsOf(tx, gen, c.blob, mode == RefuseSnapshots)
		if err != nil {
			return err
		}
		if len(snapshots) > 0 && mode == RefuseSnapshots {
			return errSnapshotsPresent
		}
		for _, slot := range snapshots {
			var snapshot Blob
			if err := getBlob(tx, gen, c.blob, slot, &snapshot); err != nil {
				return err
			}
			if err := s.remove(tx, c, gen, slot, days, &snapshot); err != nil {
				return err
			}
		}
		if mode == OnlySnapshots {
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
func (c *call) mayDelete(at Address, permanently bool) error {
	need := auth.Need{On: auth.OnObject, All: "d"}
	if at.Version != 0 {
		need.All = "x"
	}
	if permanently && c.identity.Mechanism == auth.SAS {
		need.All += "y"
	}
	return c.identity.Holds(need)
}

// remove deletes one record of the blob that c names: it stays as a previous version, or for days as soft-deleted, or not.
func (s *Service) remove(tx *store.Tx, c *call, gen, slot uint64, days int64, b *Blob) error {
	if err := b.checkDeletable(c.now()); err != nil {
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
		b.Deleted, b.KeptDays = c.now(), days
		s.bury(tx, gen, c.blob, slot, b)
		return nil
	}
	tx.Delete(blobsBucket, key)
	c.freed += b.Length
	b.content.drop(tx)
	return nil
}

// snapshotsOf returns the slots of a blob's snapshots, oldest first, without deleted ones; the first alone if one is
// enough to know.
func snapshotsOf(tx *store.Tx, gen uint64, name string, one bool) (slots []uint64, err error) {
	err = eachRecord(tx, gen, name, func(slot uint64, b *Blob) (more bool, err error) {
		if b.IsSnapshot(slot) && b.Deleted == 0 {
			slots = append(slots, slot)
		}
		return len(slots) == 0 || !one, nil
	})
	return slots, err
}
