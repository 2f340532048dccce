package blobsvc

import (
	"bytes"

	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// Reset deletes the containers of an account whose names begin with prefix, and returns how many there were. Neither leases nor
// immutability hold it up, and nothing can be restored. An empty prefix is everything, the service properties too. It is an
// operator's tool, not an operation of the REST reference.
func (s *Service) Reset(account, prefix string) (deleted int, err error) {
	remove := func() error {
		deleted, err = s.removeContainers(account, prefix)
		return err
	}
	if prefix == "" {
		err = s.properties.Remove(account, remove)
	} else {
		err = remove()
	}
	if err != nil {
		return 0, err
	}
	s.freed(int64(deleted))
	s.wakeCleaner()
	return deleted, nil
}

// removeContainers removes an account's containers whose names begin with prefix, with an empty prefix also its service
// properties.
func (s *Service) removeContainers(account, prefix string) (deleted int, err error) {
	err = s.db.Update(func(tx *store.Tx) error {
		var err error
		if deleted, err = forsake(tx, containersBucket, account, prefix); err != nil {
			return err
		}
		if _, err = forsake(tx, deletedContainersBucket, account, prefix); err != nil {
			return err
		}
		if prefix == "" {
			tx.Delete(accountsBucket, []byte(account))
		}
		return nil
	})
	return deleted, err
}

// forsake removes an account's records of containers from a bucket and leaves their contents to the garbage.
func forsake(tx *store.Tx, bucket store.Bucket, account, prefix string) (n int, err error) {
	start := containerKey(account, prefix)
	var keys [][]byte
	cur := tx.Cursor(bucket)
	for k, v := cur.Seek(start); k != nil && bytes.HasPrefix(k, start); k, v = cur.Next() {
		rec, err := decodeContainer(v)
		if err != nil {
			return 0, err
		}
		keys = append(keys, bytes.Clone(k))
		abandon(tx, account, rec.generation)
	}
	for _, k := range keys {
		tx.Delete(bucket, k)
	}
	return len(keys), nil
}
