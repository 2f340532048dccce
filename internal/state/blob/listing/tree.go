package listing

import (
	"errors"
	"strings"

	"github.com/lazuli-storage/lazuli/internal/state/blob/posix"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/state/blob/tree"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// walkTree is walk for a tree: a page of what exists in it, merged with what was deleted in it if the request wants
// that.
func (l *Blobs) walkTree(tx *store.Tx, emit func(Item) error) (next []byte, err error) {
	from, err := parsePosition(l.From)
	if err != nil {
		return nil, err
	}
	page := treePage{Blobs: l, emit: emit}
	var trash trashWalk
	if l.Deleted || l.Only == DeletedItems {
		if !l.Caller.Super() { // the lists of the places that it had are gone
			return nil, record.ErrAccess
		}
		if err := trash.begin(tx, l, from); err != nil {
			return nil, err
		}
	}
	more := true
	if l.Only != DeletedItems {
		w := treeWalk{treePage: &page, trash: &trash, from: from.existing(), Walk: tree.Walk{Tx: tx, Caller: l.Caller}}
		more, err = w.run()
	}
	if err == nil && more {
		// What was deleted behind the last item that exists.
		_, err = trash.pass(tx, "", true, &page)
	}
	return page.next, err
}

// treeWalk sends what exists in a tree, and before each item what was deleted before it in the order of paths.
type treeWalk struct {
	*treePage
	tree.Walk
	trash *trashWalk
	from  position
	// slot is that of the record that was sent last, for the position of a page that ends at it.
	slot record.Slot
}

// run walks until the page is full, when more is false, or to the end.
func (w *treeWalk) run() (more bool, err error) {
	// The walk begins at the directory of the last slash of the prefix: the rest of the prefix limits names in it.
	path, prefix := w.Directory, ""
	if !w.Paths {
		i := strings.LastIndexByte(w.Prefix, '/')
		path, prefix = w.Prefix[:max(i, 0)], w.Prefix[i+1:]
	}
	p, err := tree.Find(w.Tx, w.gen, path, w.Caller)
	absent := errors.Is(err, tree.ErrPathConflict) || errors.Is(err, tree.ErrPathDepth) || err == nil && !p.Item.Exists()
	switch {
	case absent && w.Paths: // List Paths fails for a directory that does not exist
		return false, record.ErrBlobNotFound
	case absent:
		// A listing of blobs is empty then, but for what was deleted below the prefix: more is true, so that the caller goes
		// on to the trash.
		return true, nil
	case err != nil:
		return false, err
	case p.Kind != record.EntryDirectory && !w.Paths: // a file has no names below it, whatever the prefix
		return true, nil
	case p.Kind != record.EntryDirectory: // a file is listed as what it is, which the contract of Hadoop demands
		return w.sendAlone(&p)
	}
	if _, err := tree.Permit(w.Tx, p.Item.Inode(), w.Caller, posix.Read|posix.Execute); err != nil {
		return false, err
	}
	if path = p.Path; path != "" {
		path += "/"
	}
	if err := w.Begin(p.Item.Inode(), path, prefix, w.from.path); err != nil {
		return false, err
	}
	// Each round does one entry. Before it, everything that precedes the entry in the order of paths was sent: entries by
	// the walk, which visits a directory before what is in it, and deletions by trash.pass.
	for {
		if more, err = w.Next(); err != nil || !more {
			return true, err
		}
		if w.EndBefore != "" && tree.ComparePaths(w.Path, w.EndBefore) >= 0 {
			return true, nil
		}
		// The deletions of a path come before all that exists there. trash.begin relies on it: of a page that begins at what
		// exists, they were on the page before.
		if more, err := w.trash.pass(w.Tx, w.Path, false, w.treePage); err != nil || !more {
			return false, err
		}
		w.slot = 0
		if more, err := w.spend(w.position); err != nil || !more {
			return false, err
		}
		if more, err = w.entry(); err != nil || !more {
			return false, err
		}
	}
}

// entry sends the items of the entry that the walk has reached, and lets the walk go into it if it is a directory whose
// contents are items as well.
func (w *treeWalk) entry() (more bool, err error) {
	directory := w.Last.Kind != record.EntryFile
	switch {
	case !directory && w.Only == Directories:
		return true, nil
	case !directory:
		// Only the file at which the page begins was sent in part.
		from := record.Slot(0)
		if w.Path == w.from.path {
			from = record.Slot(w.from.number)
		}
		return w.sendFile(w.Tx, w.Last.Inode, w.Path, from, w.sendRecord)
	case w.Only == Files: // the directory is no item, and what is in it may be
		w.Descend = w.Delimiter == ""
		return true, nil
	}
	if err := w.load(w.Tx, w.Last.Inode); err != nil {
		return false, lostRecord(err)
	}
	if w.Delimiter != "" && !w.Paths {
		// What was deleted in the directory has the same prefix, which must not be an item twice.
		w.trash.prefix = w.Path + "/"
		return w.sendRecord(Item{Prefix: w.trash.prefix, Blob: &w.rec}, 0)
	}
	w.Descend = w.Delimiter == ""
	return w.sendRecord(Item{Name: w.Path, Blob: &w.rec, Form: w.form}, 0)
}

// position is the position of the record that was reached: where the next page begins if it does not fit.
func (w *treeWalk) position() []byte { return position{path: w.Path, number: uint64(w.slot)}.encode() }

func (w *treeWalk) sendRecord(item Item, slot record.Slot) (more bool, err error) {
	w.slot = slot
	return w.send(item, w.position)
}

// sendAlone sends a file that the request names as its directory. It is the only item, so a later page has none.
func (w *treeWalk) sendAlone(p *tree.Place) (more bool, err error) {
	if len(w.From) > 0 {
		return false, nil
	}
	return w.sendFile(w.Tx, p.Item.Inode(), p.Path, 0, func(item Item, _ record.Slot) (bool, error) {
		return w.send(item, func() []byte { return nil })
	})
}

// sendFile sends the items of a file from a slot on: snapshots, if they are wanted, and the file itself.
func (l *Blobs) sendFile(tx *store.Tx, n record.Inode, path string, from record.Slot,
	send func(Item, record.Slot) (bool, error)) (more bool, err error) {
	// The usual listing needs the base record alone: one read, and no cursor.
	if !l.Snapshots && !l.Deleted {
		switch err := l.load(tx, n); {
		// An entry without a record is right only for a file that has uncommitted blocks and nothing else.
		case errors.Is(err, record.ErrBlobNotFound) && tx.Get(record.PendingBucket, record.PendingKey(n.Item())) == nil:
			return false, lostRecord(err)
		case errors.Is(err, record.ErrBlobNotFound):
			if !l.Uncommitted {
				return true, nil
			}
			return send(Item{Name: path}, record.BaseSlot)
		case err != nil:
			return false, err
		case !l.wants():
			return true, nil
		}
		l.rec.FinishRehydration(l.Now)
		return send(Item{Name: path, Blob: &l.rec, Form: l.form}, record.BaseSlot)
	}
	it, more, found := n.Item(), true, false
	err = record.EachSlot(tx, it, func(b *record.Blob) (bool, error) {
		found = true
		// found is set before this: the records that an earlier page has sent exist, so the file is not one of uncommitted
		// blocks alone.
		if b.Slot < from {
			return true, nil
		}
		l.rec = *b
		if err := l.readName(tx, it, path); err != nil || !l.wants() {
			return true, err
		}
		l.rec.FinishRehydration(l.Now)
		more, err = send(Item{Name: path, Blob: &l.rec}, b.Slot)
		return more, err
	})
	if err == nil && !found && l.Uncommitted {
		return send(Item{Name: path}, record.BaseSlot)
	}
	return more, err
}
