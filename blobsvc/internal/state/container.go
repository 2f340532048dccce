package state

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"strconv"
	"time"

	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/sweep"
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

// Containers has the operations on containers.
type Containers struct{ *core }

// Create creates a container with the properties of rec, and returns the time of its creation.
func (s Containers) Create(w *ContainerWrite, rec Container) (ticks.Ticks, error) {
	drawn := s.ticks.Next(w.Now)
	var changed ticks.Ticks
	err := s.db.Update(func(tx *store.Tx) error {
		key := containerKey(w.Account, w.Container)
		if tx.Get(containersBucket, key) != nil {
			return ErrContainerExists
		}
		rec := rec
		changed = s.stamp(tx, drawn)
		rec.Changed, rec.Immutable = changed, w.Policy.Immutability
		if err := checkNamespace(tx, w.Account, w.Container, w.Policy.Hierarchical); err != nil {
			return err
		}
		rec.generation = generation(nextID(tx))
		if w.Policy.Hierarchical && !IsSystem(w.Container) {
			rec.generation |= treeBit
			root := newRoot(w.Owner, string(key))
			root.Created, root.Changed = changed, changed
			putBlob(tx, rec.generation.root().item(), baseSlot, &root)
		}
		tx.Put(containersBucket, key, rec.encode())
		return nil
	})
	return changed, err
}

// Get reads a container. A lease ID that is sent must be right.
func (s Containers) Get(account, container, lease string, now time.Time) (rec Container, err error) {
	err = s.db.View(func(tx *store.Tx) (err error) {
		rec, err = getContainer(tx, account, container)
		return err
	})
	if err == nil {
		err = rec.Lease.checkRead(lease, ticks.Of(now), &containerLeaseErrors)
	}
	return rec, err
}

// updateContainer changes a container in one transaction. leased demands the ID of a lease, as Azure does for Delete
// Container alone; the others need none and refuse a wrong one.
func (s Containers) updateContainer(w *ContainerWrite, leased bool, fn func(*store.Tx, *Container) error) error {
	return s.db.Update(func(tx *store.Tx) error {
		now := s.now(tx, w.Now)
		rec, err := getContainer(tx, w.Account, w.Container)
		if err != nil {
			return err
		}
		if err := w.If.Conditions.checkWrite(rec.Changed); err != nil {
			return err
		}
		if leased {
			err = rec.Lease.checkWrite(w.If.LeaseID, now, &containerLeaseErrors)
		} else {
			err = rec.Lease.checkRead(w.If.LeaseID, now, &containerLeaseErrors)
		}
		if err != nil {
			return err
		}
		return fn(tx, &rec)
	})
}

// SetMetadata replaces the metadata of a container, and returns the time of the change.
func (s Containers) SetMetadata(w *ContainerWrite, metadata []Meta) (ticks.Ticks, error) {
	return s.changeContainer(w, func(rec *Container) { rec.Metadata = metadata })
}

// SetACL replaces the public access level and the stored access policies of a container, and returns the time
// of the change.
func (s Containers) SetACL(w *ContainerWrite, access string, policies []StoredPolicy) (ticks.Ticks, error) {
	return s.changeContainer(w, func(rec *Container) { rec.Access, rec.Policies = access, policies })
}

// changeContainer changes a container and returns the time of the change.
func (s Containers) changeContainer(w *ContainerWrite, change func(*Container)) (changed ticks.Ticks, err error) {
	drawn := s.ticks.Next(w.Now)
	err = s.updateContainer(w, false, func(tx *store.Tx, rec *Container) error {
		changed = s.stamp(tx, drawn)
		rec.Changed = changed
		change(rec)
		putContainer(tx, w.Account, w.Container, rec)
		return nil
	})
	return changed, err
}

// Delete deletes a container. Its contents are removed in the background, or once the container can no longer
// be restored. The name can be used again at once; on Azure it is blocked for some time.
func (s Containers) Delete(w *ContainerWrite) error {
	drawn := s.ticks.Next(w.Now)
	err := s.updateContainer(w, true, func(tx *store.Tx, rec *Container) error {
		// A container for immutable blobs may be deleted only without any; otherwise its deletion would be a way around
		// their policies.
		if rec.Immutable {
			if err := checkEmpty(tx, rec.generation, s.now(tx, w.Now)); err != nil {
				return err
			}
		}
		softDeleteContainer(tx, w.Account, w.Container, *rec, s.stamp(tx, drawn), w.Policy.ContainerDays)
		return nil
	})
	if err == nil {
		// How much the contents were is not known; any number above 0 makes the next compaction look.
		s.freed.Add(1)
	}
	return err
}

// Soft delete of containers: while the account keeps deleted containers, the record of one moves to the bucket of
// deleted containers, under its name and the time of its deletion, which is its version. Everything in it stays in
// place, under its generation. Restore Container puts the record back; at the end of the retention the generation
// becomes garbage. https://learn.microsoft.com/azure/storage/blobs/soft-delete-container-overview

// deletedContainerKey is the key of a deleted container.
func deletedContainerKey(account, container string, deleted ticks.Ticks) []byte {
	return binary.BigEndian.AppendUint64(append(containerKey(account, container), 0), uint64(deleted))
}

// parseDeletedContainerKey splits a key of the bucket of deleted containers. container aliases k.
func parseDeletedContainerKey(k []byte) (account string, container []byte, deleted ticks.Ticks, err error) {
	a, rest, ok := bytes.Cut(k, []byte{0})
	if !ok || len(rest) < 1+1+8 || rest[len(rest)-9] != 0 {
		return "", nil, 0, errKey
	}
	return string(a), rest[:len(rest)-9], ticks.Ticks(binary.BigEndian.Uint64(rest[len(rest)-8:])), nil
}

// epoch1601 is the year 1601 in ticks, from which Azure counts the versions of deleted containers.
const epoch1601 = 504911232000000000

// DeletedVersion describes how listings name a deleted container: the time of its deletion.
func (c *Container) DeletedVersion() string { return fmt.Sprintf("%016X", int64(c.Deleted-epoch1601)) }

// ParseDeletedVersion parses what [Container.DeletedVersion] returns.
func ParseDeletedVersion(s string) (ticks.Ticks, bool) {
	n, err := strconv.ParseInt(s, 16, 64)
	if err != nil || n <= 0 || n > 1<<62 || len(s) != 16 {
		return 0, false
	}
	return ticks.Ticks(n) + epoch1601, true
}

// purgeAt returns the time at which a deleted container is removed.
func (c *Container) purgeAt() ticks.Ticks { return c.Deleted + ticks.Ticks(c.KeptDays)*day }

// RemainingDays is the number of whole days until a deleted container is removed.
func (c *Container) RemainingDays(now ticks.Ticks) int64 { return int64(max(0, c.purgeAt()-now) / day) }

// softDeleteContainer deletes a container, which can be restored for a number of days.
func softDeleteContainer(tx *store.Tx, account, name string, rec Container, at ticks.Ticks, days int64) {
	tx.Delete(containersBucket, containerKey(account, name))
	// The generation is out of reach with the record: a new container of the name gets another one, so the name is free
	// at once.
	if days == 0 {
		discardContents(tx, account, rec.generation)
		return
	}
	rec.Lease = Lease{}
	rec.Deleted, rec.KeptDays = at, days
	tx.Put(deletedContainersBucket, deletedContainerKey(account, name, at), rec.encode())
}

// discardContents leaves the contents of a container to the background.
func discardContents(tx *store.Tx, account string, gen generation) {
	if gen.isTree() {
		discardNode(tx, gen.root())
		return
	}
	tx.Put(garbageBucket, garbageKey(garbageContainer, uint64(gen)), append([]byte{recordVersion}, account...))
}

// deleteContainers removes an account's records of containers from a bucket and leaves their contents to the
// background.
func deleteContainers(tx *store.Tx, bucket store.Bucket, account, prefix string) (n int, err error) {
	start := containerKey(account, prefix)
	var keys [][]byte
	cur := tx.Cursor(bucket)
	for k, v := cur.Seek(start); k != nil && bytes.HasPrefix(k, start); k, v = cur.Next() {
		rec, err := decodeContainer(v)
		if err != nil {
			return 0, err
		}
		keys = append(keys, bytes.Clone(k))
		discardContents(tx, account, rec.generation)
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
		key := deletedContainerKey(w.Account, name, deleted)
		v := tx.Get(deletedContainersBucket, key)
		if v == nil {
			return ErrContainerNotFound
		}
		if tx.Get(containersBucket, containerKey(w.Account, w.Container)) != nil {
			return ErrContainerExists
		}
		rec, err := decodeContainer(v)
		if err != nil {
			return err
		}
		tx.Delete(deletedContainersBucket, key)
		rec.Deleted, rec.KeptDays = 0, 0
		putContainer(tx, w.Account, w.Container, &rec)
		// The root directory names its container, by which paths are found from below. That must be the new name in the
		// same transaction.
		return moveRoot(tx, w, &rec)
	})
}

// Rename gives the container source the name of w. w has the lease of the source.
func (s Containers) Rename(w *ContainerWrite, source string) error {
	return s.db.Update(func(tx *store.Tx) error {
		rec, err := getContainer(tx, w.Account, source)
		if err != nil {
			return err
		}
		if tx.Get(containersBucket, containerKey(w.Account, w.Container)) != nil {
			return ErrContainerExists
		}
		if err := rec.Lease.checkWrite(w.If.LeaseID, s.now(tx, w.Now), &containerLeaseErrors); err != nil {
			return err
		}
		tx.Delete(containersBucket, containerKey(w.Account, source))
		putContainer(tx, w.Account, w.Container, &rec)
		return moveRoot(tx, w, &rec)
	})
}

// moveRoot writes the name of a container into the record of its root directory.
func moveRoot(tx *store.Tx, w *ContainerWrite, rec *Container) error {
	if !rec.generation.isTree() {
		return nil
	}
	var root Blob
	if err := loadBlob(tx, rec.generation.root().item(), baseSlot, &root); err != nil {
		return err
	}
	node := *root.Node
	node.name, root.Node = string(containerKey(w.Account, w.Container)), &node
	putBlob(tx, rec.generation.root().item(), baseSlot, &root)
	return nil
}

// purgeContainers removes deleted containers whose retention is over; the background removes their contents.
func (s Maintenance) purgeContainers(ctx context.Context, now time.Time) error {
	limit := ticks.Of(now)
	return s.sweep(ctx, sweep.Rule{Bucket: deletedContainersBucket, Decide: func(_, v []byte) (sweep.Decision, error) {
		rec, err := decodeContainer(v)
		if err != nil || rec.purgeAt() > limit {
			return sweep.Keep, err
		}
		return sweep.Remove, nil
	}, Remove: func(tx *store.Tx, k, v []byte) (int64, error) {
		account, _, _, err := parseDeletedContainerKey(k)
		if err != nil {
			return 0, err
		}
		rec, err := decodeContainer(v)
		if err == nil {
			discardContents(tx, account, rec.generation)
		}
		return 1, err
	}})
}
