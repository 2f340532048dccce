package offline

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// Names names for people what keys belong to: container/blob, as far as the rest of the database tells.
type Names struct {
	tx         *store.Tx
	containers map[record.Generation]string // nil until it is needed
}

// Describe calls fn with the names in the file at path.
func Describe(path string, fn func(*Names)) error {
	db, err := store.Open(path, store.Options{Buckets: record.Buckets(), ReadOnly: true})
	if err != nil {
		return err
	}
	defer db.Close()
	return db.View(func(tx *store.Tx) error { fn(&Names{tx: tx}); return nil })
}

// container returns the name of the container of a generation, and its account if it is not the only one of the file.
func (n *Names) container(g record.Generation) string {
	if n.containers == nil {
		n.containers = map[record.Generation]string{}
		for _, bucket := range []store.Bucket{record.DeletedContainersBucket, record.ContainersBucket} {
			cur := n.tx.Cursor(bucket)
			for k, v := cur.Seek(nil); k != nil; k, v = cur.Next() {
				account, name, err := record.ParseContainerKey(k)
				if bucket == record.DeletedContainersBucket {
					var deleted []byte
					if account, deleted, _, err = record.ParseDeletedContainerKey(k); err == nil {
						name = string(deleted) + " (deleted)"
					}
				}
				if rec, bad := record.DecodeContainer(v); err == nil && bad == nil {
					n.containers[rec.Generation] = account + "/" + name
				}
			}
		}
	}
	if name, ok := n.containers[g]; ok {
		return name
	}
	return fmt.Sprintf("a container that is gone (generation %d)", uint64(g))
}

// item returns account/container/blob.
func (n *Names) item(it record.Item) string {
	if !it.InTree() {
		return n.container(it.Generation) + "/" + it.Name
	}
	account, container, path, ok, err := record.PathOf(n.tx, it.Inode())
	if err != nil || !ok {
		return fmt.Sprintf("the file or directory %d", uint64(it.Inode()))
	}
	return account + "/" + container + "/" + path
}

// Of names what a key of a bucket belongs to.
func (n *Names) Of(bucket store.Bucket, key []byte) string {
	// A key that has not the form of its bucket, damaged or cut, falls through to the bytes themselves.
	switch bucket {
	case record.ContainersBucket:
		if account, name, err := record.ParseContainerKey(key); err == nil {
			return "container " + account + "/" + name
		}
	case record.BlobsBucket:
		if it, slot, err := record.ParseBlobKey(key); err == nil {
			if slot == record.BaseSlot {
				return "blob " + n.item(it)
			}
			return fmt.Sprintf("a snapshot or version of blob %s", n.item(it))
		}
		if len(key) > 8 { // a part of a key, as a page begins with
			return "blob " + n.item(record.Item{Generation: record.Generation(binary.BigEndian.Uint64(key)),
				Name: string(key[8:])})
		}
	case record.NamesBucket:
		if parent, name, err := record.ParseEntryKey(key); err == nil {
			return fmt.Sprintf("the name %q in %s", name, n.item(parent.Item()))
		}
	case record.PendingBucket, record.CopiesBucket:
		if it, err := record.ParsePendingKey(key); err == nil {
			return "uncommitted blocks of blob " + n.item(it)
		}
	case record.ContentBucket:
		if id, _, err := record.ParsePieceKey(key); err == nil {
			return "content of blob " + n.ofContent(id)
		}
	case record.BlocksBucket:
		if set, id, err := record.ParseBlockKey(key); err == nil {
			return fmt.Sprintf("uncommitted block %q of set %d", id, set)
		}
	}
	return fmt.Sprintf("%s, key %q", bucket, key)
}

// ofContent returns the name of a blob that refers to a content. It reads all blobs, for a second at most.
func (n *Names) ofContent(id uint64) string {
	begun := time.Now()
	cur := n.tx.Cursor(record.BlobsBucket)
	for k, v := cur.Seek(nil); k != nil && time.Since(begun) < time.Second; k, v = cur.Next() {
		var b record.Blob
		if it, _, err := record.ParseBlobKey(k); err == nil && record.DecodeBlob(v, &b) == nil && b.Content.ID == id {
			return n.item(it)
		}
	}
	return fmt.Sprintf("number %d", id)
}
