package state

import (
	"bytes"
	"context"
	"encoding/binary"
	"time"

	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/sweep"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// Soft delete in a tree: a file or directory loses its entry, and a record in the trash has its inode, under the path
// and the number of the deletion. Everything below it stays as it is. A restore gives it an entry again; at the end of
// the retention the inode becomes garbage. https://learn.microsoft.com/azure/storage/blobs/soft-delete-blob-overview

// trashRecord is a deleted file or directory.
type trashRecord struct {
	inode   inode
	kind    byte
	Deleted ticks.Ticks
	Days    int64
}

func (t *trashRecord) purgeAt() ticks.Ticks { return t.Deleted + ticks.Ticks(t.Days)*day }

func (t *trashRecord) encode() []byte {
	e := newEncoder(32)
	e.b = append(e.b, t.kind)
	e.uvarint(uint64(t.inode))
	e.uvarint(uint64(t.Deleted))
	e.uvarint(uint64(t.Days))
	return e.b
}

func decodeTrash(v []byte) (t trashRecord, err error) {
	d := newDecoder(v)
	t = trashRecord{kind: d.byte(), inode: inode(d.uint()), Deleted: ticks.Ticks(d.uint()), Days: int64(d.uint())}
	return t, d.err()
}

// The path of a key has 0x01 in the place of slashes, so that the order of keys is that of listings: what is in a
// directory follows it.
func trashKey(root inode, path string, deletion uint64) []byte {
	k := append(setPrefix(uint64(root)), bytes.ReplaceAll([]byte(path), []byte("/"), []byte{1})...)
	return binary.BigEndian.AppendUint64(append(k, 0), deletion)
}

func parseTrashKey(k []byte) (root inode, path string, deletion uint64, err error) {
	if len(k) < 8+1+1+8 || k[len(k)-9] != 0 {
		return 0, "", 0, errKey
	}
	return inode(binary.BigEndian.Uint64(k)), string(bytes.ReplaceAll(k[8:len(k)-9], []byte{1}, []byte("/"))),
		binary.BigEndian.Uint64(k[len(k)-8:]), nil
}

// trash deletes b, the base record, so that it can be restored, and returns the number of the deletion.
func (c *change) trash(b *Blob) (deletion uint64, err error) {
	gen, err := containerGeneration(c.tx, c.Account, c.Container)
	if err != nil {
		return 0, err
	}
	c.unlink(b)
	kind := entryFile
	if b.IsDirectory() {
		kind = entryDirectory
	}
	// Deletions are numbered as the service numbers them: by their times, in units of 100 ns since 1601.
	deletion = uint64(c.at - epoch1601)
	rec := trashRecord{inode: c.item.inode(), kind: kind, Deleted: c.at, Days: c.Policy.RetentionDays}
	c.tx.Put(trashBucket, trashKey(gen.root(), c.path, deletion), rec.encode())
	c.previous.record(b)
	c.previous.softDeleted = true
	c.note(eventDeleted, b)
	return deletion, nil
}

// Trashed is a deleted file or directory of a listing.
type Trashed struct {
	Path      string
	Deletion  uint64
	Directory bool
	Deleted   ticks.Ticks
	Days      int64
	// Blob is its record, valid until the next one.
	Blob *Blob
}

// RemainingDays is the number of whole days until it is removed.
func (t *Trashed) RemainingDays(now ticks.Ticks) int64 {
	return int64(max(0, t.Deleted+ticks.Ticks(t.Days)*day-now) / day)
}

// TrashListing is one request for a page of deleted files and directories.
type TrashListing struct {
	Prefix, Delimiter string
	// From is the position at which the page begins, as a page before returned it.
	From []byte
	Max  int
}

// ListTrash calls emit with a page of what was deleted in a container of a tree, in the order of paths: prefix is set
// in place of an item for all paths that share one up to the delimiter. It returns where the next page begins, nil at
// the end.
func (s *Store) ListTrash(r *Ref, l *TrashListing, emit func(prefix string, t Trashed) error) (next []byte, err error) {
	err = s.db.View(func(tx *store.Tx) error {
		gen, err := containerGeneration(tx, r.Account, r.Container)
		if err != nil || !gen.isTree() {
			return err
		}
		scope := setPrefix(uint64(gen.root()))
		within := append(bytes.Clone(scope), bytes.ReplaceAll([]byte(l.Prefix), []byte("/"), []byte{1})...)
		start := append(bytes.Clone(scope), l.From...)
		if bytes.Compare(start, within) < 0 {
			start = within
		}
		w := walker{cur: tx.Cursor(trashBucket), within: within}
		var b Blob
		for count := 0; ; count++ {
			if count == 0 {
				w.seek(start)
			}
			if w.key == nil {
				return nil
			}
			if count == l.Max {
				next = bytes.Clone(w.key[8:])
				return nil
			}
			_, path, deletion, err := parseTrashKey(w.key)
			if err != nil {
				return err
			}
			if p := (&Listing{Prefix: l.Prefix, Delimiter: l.Delimiter}).commonPrefix(path); p != "" {
				if err := emit(p, Trashed{}); err != nil {
					return err
				}
				w.seek(successor(append(bytes.Clone(scope), bytes.ReplaceAll([]byte(p), []byte("/"), []byte{1})...)))
				continue
			}
			rec, err := decodeTrash(w.value)
			if err != nil {
				return err
			}
			if err := loadBlob(tx, rec.inode.item(), baseSlot, &b); err != nil {
				return err
			}
			if err := emit("", Trashed{path, deletion, rec.kind == entryDirectory, rec.Deleted, rec.Days, &b}); err != nil {
				return err
			}
			w.next()
		}
	})
	return next, err
}

// RestorePath restores what was deleted at a path of the container, under the path of w, which is the same in most
// requests. Missing directories above it are created. It returns the restored record.
func (s *Store) RestorePath(w *Write, from string, deletion uint64) (b Blob, err error) {
	_, err = s.update(w, func(c *change) error {
		if err := c.enter(); err != nil {
			return err
		}
		gen, err := containerGeneration(c.tx, c.Account, c.Container)
		if err != nil {
			return err
		}
		if !c.inTree() {
			return ErrNotHierarchical
		}
		if c.item.exists() {
			return ErrPathExists
		}
		key := trashKey(gen.root(), from, deletion)
		v := c.tx.Get(trashBucket, key)
		if v == nil {
			return ErrBlobNotFound
		}
		rec, err := decodeTrash(v)
		if err != nil {
			return err
		}
		if err := loadBlob(c.tx, rec.inode.item(), baseSlot, &b); err != nil {
			return err
		}
		c.tx.Delete(trashBucket, key)
		if err := c.attach(&b, rec.inode, rec.kind); err != nil {
			return err
		}
		c.put(&b)
		c.previous.softDeleted = true
		c.note(eventCreated, &b)
		return nil
	})
	return b, err
}

// attach gives an inode the entry of the path of the change, and creates the directories that are missing above it.
func (c *change) attach(b *Blob, n inode, kind byte) error {
	if err := c.link(nil); err != nil {
		return err
	}
	c.item, c.kind = n.item(), kind
	c.tx.Put(namesBucket, entryKey(c.parent, c.name), entry{n, kind}.encode())
	node := *b.Node
	node.parent, node.name = c.parent, c.name
	b.Node = &node
	return nil
}

// purgeTrash leaves to the background what can no longer be restored.
func (s *Store) purgeTrash(ctx context.Context, now time.Time) error {
	limit := ticks.Of(now)
	return s.sweep(ctx, sweep.Rule{Bucket: trashBucket, Decide: func(_, v []byte) (sweep.Decision, error) {
		rec, err := decodeTrash(v)
		if err != nil || rec.purgeAt() > limit {
			return sweep.Keep, err
		}
		return sweep.Remove, nil
	}, Remove: func(tx *store.Tx, _, v []byte) (int64, error) {
		rec, err := decodeTrash(v)
		if err == nil {
			discardNode(tx, rec.inode)
		}
		return 1, err
	}})
}
