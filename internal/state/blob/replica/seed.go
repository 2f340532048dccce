package replica

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/lazuli-storage/lazuli/internal/state/blob/encryption"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/storage/replog"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// aloneNumber is the number of the folder of a single server: that of its extents.
const aloneNumber = 0

// Seed creates the replicated log of a cluster from the database of a single server, which is closed, and has no log of
// its own. node is the name of the folder, which belongs to a node of the cluster from now on, see [Cluster]. keys is
// the file with the keys of encryption scopes. Of the database, Seed changes only what a single server does not use.
func Seed(ctx context.Context, path, keys, node string, c replog.Config) (err error) {
	scopes, err := encryption.ReadKeys(keys)
	if err != nil {
		return fmt.Errorf("encryption scopes: %w", err)
	}
	db, err := store.Open(path, store.Options{Buckets: record.Buckets()})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	err = db.Update(func(tx *store.Tx) error {
		number(tx, node)
		record.ForgetTier(tx)
		for id, key := range scopes {
			tx.Put(record.MetaBucket, append(bytes.Clone(scopeKeyPrefix), id...), key)
		}
		// Later changes have later times, also on a node whose clock is behind.
		if now := ticks.Of(time.Now()); now > clockOf(tx) {
			tx.Put(record.MetaBucket, clockKey, binary.BigEndian.AppendUint64(nil, uint64(now)))
		}
		return nil
	})
	if err != nil {
		return err
	}
	return db.Seed(ctx, c)
}

// number gives the folder of a single server, under its name in the cluster, the number that its extents have. Folders
// of a cluster from which its data came keep their numbers, so that no new folder gets one of them.
func number(tx *store.Tx, node string) {
	var former [][]byte
	c := tx.Cursor(record.MetaBucket)
	for k, v := c.Seek(nodePrefix); bytes.HasPrefix(k, nodePrefix); k, v = c.Next() {
		if len(v) == 8 && binary.BigEndian.Uint64(v) == aloneNumber {
			former = append(former, bytes.Clone(k))
		}
	}
	for _, k := range former {
		tx.Delete(record.MetaBucket, k)
	}
	tx.Put(record.MetaBucket, append(bytes.Clone(nodePrefix), node...), binary.BigEndian.AppendUint64(nil, aloneNumber))
}
