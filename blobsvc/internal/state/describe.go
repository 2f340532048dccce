package state

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// Names names for people what keys belong to: container/blob, as far as the rest of the database tells.
type Names struct {
	tx         *store.Tx
	containers map[generation]string // nil until it is needed
}

// Describe calls fn with the names in the file at path.
func Describe(path string, fn func(*Names)) error {
	db, err := store.Open(path, store.Options{Buckets: Buckets(), ReadOnly: true})
	if err != nil {
		return err
	}
	defer db.Close()
	return db.View(func(tx *store.Tx) error { fn(&Names{tx: tx}); return nil })
}

// container returns the name of the container of a generation, and its account if it is not the only one of the file.
func (n *Names) container(g generation) string {
	if n.containers == nil {
		n.containers = map[generation]string{}
		for _, bucket := range []store.Bucket{deletedContainersBucket, containersBucket} {
			cur := n.tx.Cursor(bucket)
			for k, v := cur.Seek(nil); k != nil; k, v = cur.Next() {
				account, name, err := parseContainerKey(k)
				if bucket == deletedContainersBucket {
					var deleted []byte
					if account, deleted, _, err = parseDeletedContainerKey(k); err == nil {
						name = string(deleted) + " (deleted)"
					}
				}
				if rec, bad := decodeContainer(v); err == nil && bad == nil {
					n.containers[rec.generation] = account + "/" + name
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
func (n *Names) item(it item) string {
	if !it.inTree() {
		return n.container(it.gen) + "/" + it.name
	}
	account, container, path, ok, err := pathOf(n.tx, it.inode())
	if err != nil || !ok {
		return fmt.Sprintf("the file or directory %d", uint64(it.inode()))
	}
	return account + "/" + container + "/" + path
}

// Of names what a key of a bucket belongs to.
func (n *Names) Of(bucket store.Bucket, key []byte) string {
	switch bucket {
	case containersBucket:
		if account, name, err := parseContainerKey(key); err == nil {
			return "container " + account + "/" + name
		}
	case blobsBucket:
		if it, slot, err := parseBlobKey(key); err == nil {
			if slot == baseSlot {
				return "blob " + n.item(it)
			}
			return fmt.Sprintf("a snapshot or version of blob %s", n.item(it))
		}
		if len(key) > 8 { // a part of a key, as a page begins with
			return "blob " + n.item(item{generation(binary.BigEndian.Uint64(key)), string(key[8:])})
		}
	case namesBucket:
		if parent, name, err := parseEntryKey(key); err == nil {
			return fmt.Sprintf("the name %q in %s", name, n.item(parent.item()))
		}
	case pendingBucket, copiesBucket:
		if it, err := parsePendingKey(key); err == nil {
			return "uncommitted blocks of blob " + n.item(it)
		}
	case contentBucket:
		if id, _, err := parsePieceKey(key); err == nil {
			return "content of blob " + n.ofContent(id)
		}
	case blocksBucket:
		if set, id, err := parseBlockKey(key); err == nil {
			return fmt.Sprintf("uncommitted block %q of set %d", id, set)
		}
	}
	return fmt.Sprintf("%s, key %q", bucket, key)
}

// ofContent returns the name of a blob that refers to a content. It reads all blobs, for a second at most.
func (n *Names) ofContent(id uint64) string {
	begun := time.Now()
	cur := n.tx.Cursor(blobsBucket)
	for k, v := cur.Seek(nil); k != nil && time.Since(begun) < time.Second; k, v = cur.Next() {
		var b Blob
		if it, _, err := parseBlobKey(k); err == nil && decodeBlob(v, &b) == nil && b.content.id == id {
			return n.item(it)
		}
	}
	return fmt.Sprintf("number %d", id)
}
