package blob

import (
	"bytes"
	"time"

	"github.com/lazuli-storage/lazuli/internal/state/blob/lease"
	"github.com/lazuli-storage/lazuli/internal/state/blob/listing"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/state/blob/tree"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// ContainerWrite has the parameters that all changes of a container share.
type ContainerWrite struct {
	Account, Container string
	// Now is the time of the request.
	Now time.Time
	// If must hold for the container. It has no condition on tags.
	If     Preconditions
	Policy Policy
	// Owner is the owner of the root directory of a new container in a hierarchical account.
	Owner string
}

// Create creates a container with the properties of rec, and returns the time of its creation.
func (s Containers) Create(w *ContainerWrite, rec record.Container) (ticks.Ticks, error) {
	drawn := s.ticks.Next(w.Now)
	var changed ticks.Ticks
	err := s.db.Update(func(tx *store.Tx) error {
		key := record.ContainerKey(w.Account, w.Container)
		if tx.Get(record.ContainersBucket, key) != nil {
			return ErrContainerExists
		}
		rec := rec
		changed = s.node.Stamp(tx, drawn)
		rec.Changed = changed
		rec.Immutable = w.Policy.Immutability
		if err := checkNamespace(tx, w.Account, w.Container, w.Policy.Hierarchical); err != nil {
			return err
		}
		rec.Generation = record.Generation(record.NextID(tx))
		if w.Policy.Hierarchical && !IsSystem(w.Container) {
			rec.Generation |= record.TreeBit
			root := record.NewRoot(w.Owner, string(key))
			root.Created = changed
			root.Changed = changed
			record.PutBlob(tx, rec.Generation.Root().Item(), record.BaseSlot, &root)
		}
		tx.Put(record.ContainersBucket, key, rec.Encode())
		return nil
	})
	return changed, err
}

// Get reads a container. A lease ID that is sent must be right.
func (s Containers) Get(account, container, leaseID string, now time.Time) (rec record.Container, err error) {
	err = s.db.View(func(tx *store.Tx) (err error) {
		rec, err = record.GetContainer(tx, account, container)
		return err
	})
	if err == nil {
		err = rec.Lease.CheckRead(leaseID, ticks.Of(now), &lease.OfContainer)
	}
	return rec, err
}

// updateContainer changes a container in one transaction. leased demands the ID of a lease, as Azure does for Delete
// Container alone; the others need none and refuse a wrong one.
func (s Containers) updateContainer(w *ContainerWrite, leased bool, fn func(*store.Tx, *record.Container) error) error {
	return s.db.Update(func(tx *store.Tx) error {
		now := s.node.Now(tx, w.Now)
		rec, err := record.GetContainer(tx, w.Account, w.Container)
		if err != nil {
			return err
		}
		if err := w.If.Conditions.checkWrite(rec.Changed); err != nil {
			return err
		}
		if leased {
			err = rec.Lease.CheckWrite(w.If.LeaseID, now, &lease.OfContainer)
		} else {
			err = rec.Lease.CheckRead(w.If.LeaseID, now, &lease.OfContainer)
		}
		if err != nil {
			return err
		}
		return fn(tx, &rec)
	})
}

// List calls fn for the containers of a listing in order, until it returns false.
func (s Containers) List(l *listing.Containers, fn func(name string, rec *record.Container) (more bool)) error {
	return s.db.View(func(tx *store.Tx) error { return l.Each(tx, fn) })
}

// SetMetadata replaces the metadata of a container, and returns the time of the change.
func (s Containers) SetMetadata(w *ContainerWrite, metadata []record.Meta) (ticks.Ticks, error) {
	return s.changeContainer(w, func(rec *record.Container) { rec.Metadata = metadata })
}

// SetACL replaces the public access level and the stored access policies of a container, and returns the time
// of the change.
func (s Containers) SetACL(w *ContainerWrite, access string, policies []record.StoredPolicy) (ticks.Ticks, error) {
	return s.changeContainer(w, func(rec *record.Container) { rec.Access, rec.Policies = access, policies })
}

// changeContainer changes a container and returns the time of the change.
func (s Containers) changeContainer(w *ContainerWrite, change func(*record.Container)) (changed ticks.Ticks,
	err error) {
	drawn := s.ticks.Next(w.Now)
	err = s.updateContainer(w, false, func(tx *store.Tx, rec *record.Container) error {
		changed = s.node.Stamp(tx, drawn)
		rec.Changed = changed
		change(rec)
		record.PutContainer(tx, w.Account, w.Container, rec)
		return nil
	})
	return changed, err
}

// Delete deletes a container. Its contents are removed in the background, or once the container can no longer
// be restored. The name can be used again at once; on Azure it is blocked for some time.
func (s Containers) Delete(w *ContainerWrite) error {
	drawn := s.ticks.Next(w.Now)
	err := s.updateContainer(w, true, func(tx *store.Tx, rec *record.Container) error {
		// A container for immutable blobs may be deleted only without any; otherwise its deletion would be a way around
		// their policies.
		if rec.Immutable {
			if err := checkEmpty(tx, rec.Generation, s.node.Now(tx, w.Now)); err != nil {
				return err
			}
		}
		return w.softDelete(tx, *rec, s.node.Stamp(tx, drawn))
	})
	if err == nil {
		// How much the contents were is not known; any number above 0 makes the next compaction look.
		s.node.Freed.Add(1)
	}
	return err
}

// Soft delete of containers: while the account keeps deleted containers, the record of one moves to the bucket of
// deleted containers, under its name and the time of its deletion, which is its version. Everything in it stays in
// place, under its generation. Restore Container puts the record back; at the end of the retention the generation
// becomes garbage. https://learn.microsoft.com/azure/storage/blobs/soft-delete-container-overview

// softDelete deletes the container of w, whose record is rec. It can be restored for the days of the policy.
func (w *ContainerWrite) softDelete(tx *store.Tx, rec record.Container, at ticks.Ticks) error {
	tx.Delete(record.ContainersBucket, record.ContainerKey(w.Account, w.Container))
	// The generation is out of reach with the record: a new container of the name gets another one, so the name is free
	// at once.
	if w.Policy.ContainerDays == 0 {
		return tree.DiscardContents(tx, w.Account, rec.Generation)
	}
	rec.Lease = lease.Lease{}
	rec.Deleted = at
	rec.KeptDays = w.Policy.ContainerDays
	tx.Put(record.DeletedContainersBucket, record.DeletedContainerKey(w.Account, w.Container, at), rec.Encode())
	return nil
}

// deleteContainers removes an account's records of containers from a bucket and leaves their contents to the
// background.
func deleteContainers(tx *store.Tx, bucket store.Bucket, account, prefix string) (n int, err error) {
	start := record.ContainerKey(account, prefix)
	var keys [][]byte
	cur := tx.Cursor(bucket)
	for k, v := cur.Seek(start); k != nil && bytes.HasPrefix(k, start); k, v = cur.Next() {
		rec, err := record.DecodeContainer(v)
		if err != nil {
			return 0, err
		}
		keys = append(keys, bytes.Clone(k))
		if err := tree.DiscardContents(tx, account, rec.Generation); err != nil {
			return 0, err
		}
	}
	for _, k := range keys {
		tx.Delete(bucket, k)
	}
	return len(keys), nil
}

// Restore restores the container that was deleted under a name at a time. It gets the name of w, which may be
// another one.
func (s Containers) Restore(w *ContainerWrite, name string, deleted ticks.Ticks) error {
	return s.db.Update(func(tx *store.Tx) error {
		key := record.DeletedContainerKey(w.Account, name, deleted)
		v := tx.Get(record.DeletedContainersBucket, key)
		if v == nil {
			return record.ErrContainerNotFound
		}
		if tx.Get(record.ContainersBucket, record.ContainerKey(w.Account, w.Container)) != nil {
			return ErrContainerExists
		}
		rec, err := record.DecodeContainer(v)
		if err != nil {
			return err
		}
		tx.Delete(record.DeletedContainersBucket, key)
		rec.Deleted = 0
		rec.KeptDays = 0
		record.PutContainer(tx, w.Account, w.Container, &rec)
		// The root directory names its container, by which paths are found from below. That must be the new name in the
		// same transaction.
		return moveRoot(tx, w, &rec)
	})
}

// Rename gives the container source the name of w. w has the lease of the source.
func (s Containers) Rename(w *ContainerWrite, source string) error {
	return s.db.Update(func(tx *store.Tx) error {
		rec, err := record.GetContainer(tx, w.Account, source)
		if err != nil {
			return err
		}
		if tx.Get(record.ContainersBucket, record.ContainerKey(w.Account, w.Container)) != nil {
			return ErrContainerExists
		}
		if err := rec.Lease.CheckWrite(w.If.LeaseID, s.node.Now(tx, w.Now), &lease.OfContainer); err != nil {
			return err
		}
		tx.Delete(record.ContainersBucket, record.ContainerKey(w.Account, source))
		record.PutContainer(tx, w.Account, w.Container, &rec)
		return moveRoot(tx, w, &rec)
	})
}

// moveRoot writes the name of a container into the record of its root directory.
func moveRoot(tx *store.Tx, w *ContainerWrite, rec *record.Container) error {
	if !rec.Generation.IsTree() {
		return nil
	}
	var root record.Blob
	if err := record.LoadBlob(tx, rec.Generation.Root().Item(), record.BaseSlot, &root); err != nil {
		return err
	}
	node := *root.Node
	node.Name = string(record.ContainerKey(w.Account, w.Container))
	root.Node = &node
	record.PutBlob(tx, rec.Generation.Root().Item(), record.BaseSlot, &root)
	return nil
}
