package state

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"strings"
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
func (c *change) trash(b *Blob, e event) (deletion uint64, err error) {
	gen, err := containerGeneration(c.tx, c.Account, c.Container)
	if err != nil {
		return 0, err
	}
	// The record of b keeps its parent and name, and is not marked: the trash alone says that it is deleted. Out of
	// reach is what has no entry.
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
	c.note(e, b)
	return deletion, nil
}

// trashWalk visits what was deleted in a tree, in the order of paths. What a request for a page wants of it is in l; a
// walk of nothing has no key.
type trashWalk struct {
	walker
	l     *Listing
	scope []byte
	// path and deletion are those of the current key. prefix is the last prefix that was an item.
	path     string
	deletion uint64
	prefix   string
}

// trashEntry ends the position of a page that begins in the trash.
const trashEntry = 't'

// position is the position of the current key in a listing.
func (w *trashWalk) position() []byte {
	path, deletion := w.path, w.deletion
	if p := w.l.commonPrefix(path); p != "" {
		path, deletion = p, 0
	}
	return append(binary.BigEndian.AppendUint64(append([]byte(path), 0), deletion), trashEntry)
}

// begin starts the walk of a container at a position: at a deletion of a path, or behind all of them.
func (w *trashWalk) begin(tx *store.Tx, l *Listing, from string, deletion uint64, behind bool) error {
	w.l, w.scope = l, setPrefix(uint64(l.gen.root()))
	key := func(path string) []byte {
		return append(bytes.Clone(w.scope), bytes.ReplaceAll([]byte(path), []byte("/"), []byte{1})...)
	}
	w.walker = walker{cur: tx.Cursor(trashBucket), within: key(l.Prefix)}
	start := key(from)
	if behind {
		start = append(append(start, 0), bytes.Repeat([]byte{0xff}, 9)...)
	} else if from != "" && !strings.HasSuffix(from, "/") {
		start = binary.BigEndian.AppendUint64(append(start, 0), deletion)
	}
	if bytes.Compare(start, w.within) < 0 {
		start = w.within
	}
	w.seek(start)
	return w.parse()
}

func (w *trashWalk) parse() (err error) {
	if w.key == nil {
		return nil
	}
	_, w.path, w.deletion, err = parseTrashKey(w.key)
	if w.l.EndBefore != "" && comparePaths(w.path, w.l.EndBefore) >= 0 {
		w.key = nil
	}
	return err
}

// pass sends what was deleted up to a path, or everything that is left. It returns false when the page is full.
func (w *trashWalk) pass(tx *store.Tx, upTo string, all bool, page *treePage) (more bool, err error) {
	for w.key != nil && (all || comparePaths(w.path, upTo) <= 0) {
		item := Item{}
		if more, err := page.spend(w.position); err != nil || !more {
			return false, err
		}
		if item.Prefix = w.l.commonPrefix(w.path); item.Prefix != "" {
			if item.Blob, err = w.directory(tx, item.Prefix); err != nil {
				return false, err
			}
		} else {
			rec, err := decodeTrash(w.value)
			if err != nil {
				return false, err
			}
			// The record in the tree has no mark, so a listing gets the time and the retention from the trash.
			if err := loadBlob(tx, rec.inode.item(), baseSlot, &w.l.rec); err != nil {
				return false, err
			}
			w.l.rec.Deleted, w.l.rec.KeptDays = rec.Deleted, rec.Days
			item.Name, item.Blob, item.Deletion = w.path, &w.l.rec, w.deletion
		}
		// The walk of the tree sets prefix as well when a directory that exists was sent as one.
		if item.Prefix == "" || item.Prefix != w.prefix {
			if more, err := page.send(item, w.position); err != nil || !more {
				return false, err
			}
		}
		// Everything with the prefix is one item, so the walk seeks past it and does not read it.
		if w.prefix = item.Prefix; w.prefix != "" {
			w.seek(successor(append(bytes.Clone(w.scope), bytes.ReplaceAll([]byte(w.prefix), []byte("/"), []byte{1})...)))
		} else {
			w.next()
		}
		if err := w.parse(); err != nil {
			return false, err
		}
	}
	return true, nil
}

// directory returns the directory that exists at a prefix, nil if none does: what was deleted in a directory stays in
// the trash when that is deleted, too.
func (w *trashWalk) directory(tx *store.Tx, prefix string) (*Blob, error) {
	p, err := walkTree(tx, w.l.gen.root(), strings.TrimSuffix(prefix, "/"), w.l.Caller)
	switch {
	case errors.Is(err, ErrPathConflict), err == nil && (!p.item.exists() || p.kind != entryDirectory):
		return nil, nil
	case err != nil:
		return nil, err
	}
	if err := w.l.load(tx, p.item.inode()); err != nil {
		return nil, lostRecord(err)
	}
	return &w.l.rec, nil
}

// Restore restores what was deleted at a path of the container, under the path of w, which is the same in most
// requests. Missing directories above it are created. It returns the restored record.
func (s Paths) Restore(w *Write, from string, deletion uint64) (b Blob, err error) {
	_, err = s.update(w, func(c *change) error {
		if !c.Caller.Super() { // the lists of the place that it had are gone
			return ErrAccess
		}
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
		// In the same transaction as the new entry: an inode with both would be purged while it is in use.
		c.tx.Delete(trashBucket, key)
		if err := c.attach(&b, rec.inode, rec.kind); err != nil {
			return err
		}
		c.put(&b)
		c.previous.softDeleted = true
		c.note(eventCreated, &b)
		c.moved = b.IsDirectory()
		return nil
	})
	return b, err
}

// attach gives an inode the entry of the path of the change, and creates the directories that are missing above it.
func (c *change) attach(b *Blob, n inode, kind byte) error {
	if err := c.link(nil); err != nil {
		return err
	}
	// link has made the missing directories, and an entry with a new inode of which nothing is stored. The entry below
	// replaces that one.
	c.item, c.kind = n.item(), kind
	c.tx.Put(namesBucket, entryKey(c.parent, c.name), entry{n, kind}.encode())
	node := *b.Node
	node.parent, node.name = c.parent, c.name
	b.Node = &node
	return nil
}

// purgeTrash leaves to the background what can no longer be restored.
func (s Maintenance) purgeTrash(ctx context.Context, now time.Time) error {
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
