package blobsvc

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/sweep"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// Soft delete of containers: where the account keeps deleted containers, the record of one goes to the graves bucket, under
// its name and the time of its deletion, which is its version. Everything in it stays where it is, under its generation.
// Restore Container puts the record back; at the end of the retention the generation becomes garbage.
// https://learn.microsoft.com/azure/storage/blobs/soft-delete-container-overview

// deletedContainerKey is the key of a deleted container. The name alone is the key before those of its versions.
func deletedContainerKey(account, container string, deleted ticks.Ticks) []byte {
	return binary.BigEndian.AppendUint64(append(containerKey(account, container), 0), uint64(deleted))
}

// parseDeletedContainerKey splits a key of the graves bucket. container aliases k.
func parseDeletedContainerKey(k []byte) (account string, container []byte, deleted ticks.Ticks, err error) {
	a, rest, ok := bytes.Cut(k, []byte{0})
	if !ok || len(rest) < 1+1+8 || rest[len(rest)-9] != 0 {
		return "", nil, 0, errKey
	}
	return string(a), rest[:len(rest)-9], ticks.Ticks(binary.BigEndian.Uint64(rest[len(rest)-8:])), nil
}

// epoch1601 is the year 1601 in ticks, from which Azure counts the versions of deleted containers.
const epoch1601 = 504911232000000000

// DeletedVersion is how listings name a deleted container: the time of its deletion.
func (c *Container) DeletedVersion() string { return fmt.Sprintf("%016X", int64(c.Deleted-epoch1601)) }

// parseContainerVersion reads what version writes.
func parseContainerVersion(s string) (ticks.Ticks, bool) {
	n, err := strconv.ParseInt(s, 16, 64)
	if err != nil || n <= 0 || n > 1<<62 || len(s) != 16 {
		return 0, false
	}
	return ticks.Ticks(n) + epoch1601, true
}

// PurgeAt is when a deleted container goes for good.
func (c *Container) PurgeAt() ticks.Ticks { return c.Deleted + ticks.Ticks(c.KeptDays)*day }

// inter deletes a container: for days it can be restored.
func inter(tx *store.Tx, account, name string, rec Container, at ticks.Ticks, days int64) {
	tx.Delete(containersBucket, containerKey(account, name))
	if days == 0 {
		abandon(tx, account, rec.generation)
		return
	}
	rec.Lease = Lease{}
	rec.Deleted, rec.KeptDays = at, days
	tx.Put(deletedContainersBucket, deletedContainerKey(account, name, at), rec.encode())
}

// abandon leaves the contents of a container to the garbage.
func abandon(tx *store.Tx, account string, gen uint64) {
	tx.Put(garbageBucket, garbageKey(garbageContainer, gen), append([]byte{recordVersion}, account...))
}

// restoreContainer: https://learn.microsoft.com/rest/api/storageservices/restore-container
// The name that is restored to need not be the one that was deleted.
func (s *Service) restoreContainer(c *call) error {
	name, version := c.Header("X-Ms-Deleted-Container-Name"), c.Header("X-Ms-Deleted-Container-Version")
	switch {
	case name == "":
		return wire.MissingHeader("x-ms-deleted-container-name")
	case version == "":
		return wire.MissingHeader("x-ms-deleted-container-version")
	}
	if err := containerName(name); err != nil {
		return wire.InvalidHeader("x-ms-deleted-container-name", name)
	}
	deleted, ok := parseContainerVersion(version)
	if !ok {
		return wire.InvalidHeader("x-ms-deleted-container-version", version)
	}
	err := s.db.Update(func(tx *store.Tx) error {
		key := deletedContainerKey(c.Account, name, deleted)
		v := tx.Get(deletedContainersBucket, key)
		if v == nil {
			return errContainerNotFound
		}
		if tx.Get(containersBucket, containerKey(c.Account, c.container)) != nil {
			return errContainerAlreadyExists
		}
		rec, err := decodeContainer(v)
		if err != nil {
			return err
		}
		tx.Delete(deletedContainersBucket, key)
		rec.Deleted, rec.KeptDays = 0, 0
		putContainer(tx, c.Account, c.container, &rec)
		return nil
	})
	if err != nil {
		return err
	}
	return c.Status(http.StatusCreated)
}

// purgeContainers leaves deleted containers to the garbage whose time is over.
func (s *Service) purgeContainers(ctx context.Context, now time.Time) error {
	limit := ticks.Of(now)
	_, err := s.sweep(ctx, sweep.Rule{Bucket: deletedContainersBucket, Decide: func(_, v []byte) (sweep.Decision, error) {
		rec, err := decodeContainer(v)
		if err != nil || rec.PurgeAt() > limit {
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
			abandon(tx, account, rec.generation)
		}
		return 1, err
	}})
	return err
}
