package listing

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"

	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/state/blob/tree"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// trashWalk visits what was deleted in a tree, in the order of paths. What a request for a page wants of it is in l; a
// walk of nothing has no key.
type trashWalk struct {
	record.Range
	l     *Blobs
	scope []byte
	// path and deletion are those of the current key. prefix is the last prefix that was an item.
	path     string
	deletion uint64
	prefix   string
}

// position is the position of the current key in a listing.
func (w *trashWalk) position() []byte {
	p := position{path: w.path, number: w.deletion, trash: true}
	if prefix := w.l.commonPrefix(w.path); prefix != "" {
		p.path = prefix
		p.number = 0
	}
	return p.encode()
}

// key returns the beginning of the keys of what was deleted at a path or below it.
func (w *trashWalk) key(path string) []byte {
	return append(bytes.Clone(w.scope), bytes.ReplaceAll([]byte(path), []byte("/"), []byte{1})...)
}

// begin starts the walk of a container at a position.
func (w *trashWalk) begin(tx *store.Tx, l *Blobs, from position) error {
	w.l = l
	w.scope = record.IDPrefix(uint64(l.gen.Root()))
	within := w.key(l.Prefix)
	w.Within(tx, record.TrashBucket, within)
	start := w.key(from.path)
	switch {
	case !from.trash && len(l.From) > 0:
		// The page begins at what exists at a path. The deletions of the path were before it, so the walk begins behind them:
		// after the highest number that one can have.
		start = append(append(start, 0), bytes.Repeat([]byte{0xff}, 9)...)
	case from.path != "" && !strings.HasSuffix(from.path, "/"):
		start = binary.BigEndian.AppendUint64(append(start, 0), from.number)
	}
	// A prefix that what was deleted has in common, which ends with a slash, is itself the beginning of the keys.
	if bytes.Compare(start, within) < 0 {
		start = within
	}
	w.Seek(start)
	return w.parse()
}

// parse takes the current key apart. It ends the walk at the end of the listing.
func (w *trashWalk) parse() (err error) {
	if w.Key == nil {
		return nil
	}
	_, w.path, w.deletion, err = record.ParseTrashKey(w.Key)
	if w.l.EndBefore != "" && tree.ComparePaths(w.path, w.l.EndBefore) >= 0 {
		w.Key = nil
	}
	return err
}

// pass sends what was deleted up to a path, or everything that is left. It returns false when the page is full.
func (w *trashWalk) pass(tx *store.Tx, upTo string, all bool, page *treePage) (more bool, err error) {
	// Each round does one deletion. All before the current key were sent, or are within a prefix that was.
	for w.Key != nil && (all || tree.ComparePaths(w.path, upTo) <= 0) {
		// The work does not end a page at a prefix that was sent: the next page would send it once more.
		if w.prefix == "" || w.prefix != w.l.commonPrefix(w.path) {
			if more, err := page.spend(w.position); err != nil || !more {
				return false, err
			}
		}
		item, err := w.item(tx)
		if err != nil {
			return false, err
		}
		// A prefix is one item, also if a directory that exists has it: the walk of the tree sets prefix when it has sent
		// that as one.
		if item.Prefix == "" || item.Prefix != w.prefix {
			if more, err := page.send(item, w.position); err != nil || !more {
				return false, err
			}
		}
		// Everything with the prefix is one item, so the walk seeks past it and does not read it.
		if w.prefix = item.Prefix; w.prefix != "" {
			w.Seek(record.Successor(w.key(w.prefix)))
		} else {
			w.Next()
		}
		if err := w.parse(); err != nil {
			return false, err
		}
	}
	return true, nil
}

// item is the item of the current key: what was deleted, or the prefix that it has in common with others.
func (w *trashWalk) item(tx *store.Tx) (item Item, err error) {
	if item.Prefix = w.l.commonPrefix(w.path); item.Prefix != "" {
		item.Blob, err = w.directory(tx, item.Prefix)
		return item, err
	}
	rec, err := record.DecodeTrash(w.Value)
	if err != nil {
		return item, err
	}
	// The record in the tree has no mark, so a listing gets the time and the retention from the trash.
	if err := record.LoadBlob(tx, rec.Inode.Item(), record.BaseSlot, &w.l.rec); err != nil {
		return item, err
	}
	w.l.rec.Deleted = rec.Deleted
	w.l.rec.KeptDays = rec.Days
	return Item{Name: w.path, Blob: &w.l.rec, Deletion: w.deletion}, nil
}

// directory returns the directory that exists at a prefix, nil if none does: what was deleted in a directory stays in
// the trash when that is deleted, too.
func (w *trashWalk) directory(tx *store.Tx, prefix string) (*record.Blob, error) {
	p, err := tree.Find(tx, w.l.gen, strings.TrimSuffix(prefix, "/"), w.l.Caller)
	switch {
	case errors.Is(err, tree.ErrPathConflict), err == nil && (!p.Item.Exists() || p.Kind != record.EntryDirectory):
		return nil, nil
	case err != nil:
		return nil, err
	}
	if err := w.l.load(tx, p.Item.Inode()); err != nil {
		return nil, lostRecord(err)
	}
	return &w.l.rec, nil
}
