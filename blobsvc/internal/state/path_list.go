package state

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/posix"
	"github.com/lazuli-storage/lazuli/internal/budget"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// treeWalk visits the entries below a directory, each directory before what is in it, names in the order of their
// bytes: the order of paths in which a slash comes first. It seeks, so that a page costs what is in it.
type treeWalk struct {
	tx     *store.Tx
	caller *posix.Caller
	levels []treeLevel
	// descend is set if the walk goes on within the last entry, a directory.
	descend bool
	last    entry
	path    string // of the last entry
	text    texts  // of the paths
	key     []byte // of the last record, used again
}

// treeLevel is one directory of the walk.
type treeLevel struct {
	walker
	path string // of the directory, with a slash behind it; "" for the root
}

// begin starts at the first entry of a directory, whose path ends with a slash, that begins with prefix, and whose path
// is not before from.
func (w *treeWalk) begin(dir inode, path, prefix, from string) error {
	// rest is what is left of from below the directory of the present level.
	rest, ok := strings.CutPrefix(from, path)
	if !ok { // from is before or after all of the directory
		if comparePaths(from, path) > 0 {
			return nil
		}
		rest = ""
	}
	// Each round opens one level: a directory on the way to from is an item of an earlier page, but what is in it may
	// not be. The way ends early at a segment that no longer has an entry; the cursor is at the next one then.
	for {
		name, below, deeper := strings.Cut(rest, "/")
		// prefix limits the names of the first level alone; an earlier from would seek to keys outside it.
		l := w.push(dir, path, prefix, max(name, prefix))
		if !deeper || l.key == nil || string(l.key[8:]) != name {
			return nil
		}
		e, err := decodeEntry(l.value)
		if err != nil {
			return err
		}
		l.next() // it was visited before
		if e.kind != entryDirectory {
			return nil
		}
		if err := w.mayList(e.inode); err != nil {
			return err
		}
		dir, path, prefix, rest = e.inode, path+name+"/", "", below
	}
}

func (w *treeWalk) push(dir inode, path, prefix, from string) *treeLevel {
	n := len(w.levels)
	if n < cap(w.levels) {
		w.levels = w.levels[:n+1] // with the cursor of an earlier directory
	} else {
		w.levels = append(w.levels, treeLevel{})
	}
	l := &w.levels[n]
	if l.cur == nil {
		l.cur = w.tx.Cursor(namesBucket)
	}
	// A cursor stays with its depth when the level ends, so that a walk opens one per level and not one per directory.
	l.path, l.within = path, entryKey(dir, prefix)
	start := l.within
	if from != prefix {
		start = entryKey(dir, from)
	}
	l.seek(start)
	return l
}

// mayList checks that the directory's record exists, and the permission to list it.
func (w *treeWalk) mayList(dir inode) error {
	if w.caller.Super() {
		w.key = appendNodeKey(w.key[:0], dir)
		if w.tx.Get(blobsBucket, w.key) == nil {
			return ErrBlobNotFound
		}
		return nil
	}
	_, err := permit(w.tx, dir, w.caller, posix.Read|posix.Execute)
	return err
}

// next moves to the next entry; more is false at the end.
func (w *treeWalk) next() (more bool, err error) {
	// The caller decides after it has seen the directory whether the walk goes into it, so the level is opened here.
	// The level above has moved behind the directory already and goes on there when this one ends.
	if w.descend {
		w.descend = false
		if err := w.mayList(w.last.inode); err != nil {
			return false, err
		}
		w.push(w.last.inode, w.text.joined(w.path, slash), "", "")
	}
	for len(w.levels) > 0 {
		l := &w.levels[len(w.levels)-1]
		if l.key == nil {
			w.levels = w.levels[:len(w.levels)-1]
			continue
		}
		if w.last, err = decodeEntry(l.value); err != nil {
			return false, err
		}
		w.path = w.text.joined(l.path, l.key[8:])
		l.walker.next()
		return true, nil
	}
	return false, nil
}

var slash = []byte("/")

// comparePaths compares in the order of listings.
func comparePaths(a, b string) int {
	return strings.Compare(strings.ReplaceAll(a, "/", "\x00"), strings.ReplaceAll(b, "/", "\x00"))
}

// walkTree is walk for a tree. A page begins at a path, and within it at a slot, or in the trash.
func (l *Listing) walkTree(tx *store.Tx, emit func(Item) error) (next []byte, err error) {
	// A position is a path, 0x00 and 8 bytes, and trashEntry behind them if the page begins in the trash: the 8 bytes
	// are a slot of a file that exists, or the number of a deletion. Without 0x00 it is a path alone. No name has 0x00.
	from, fromSlot, dead := string(l.From), Slot(0), false
	if i := bytes.IndexByte(l.From, 0); i >= 0 {
		dead = len(l.From) == i+10 && l.From[i+9] == trashEntry
		if len(l.From) != i+9 && !dead {
			return nil, errKey
		}
		from, fromSlot = string(l.From[:i]), Slot(binary.BigEndian.Uint64(l.From[i+1:]))
	}
	page := treePage{Listing: l, emit: emit}
	var trash trashWalk
	if l.Deleted || l.Only == DeletedItems {
		if !l.Caller.Super() { // the lists of the places that it had are gone
			return nil, ErrAccess
		}
		// What was deleted at a path comes before what exists there. So a page that begins at an item that exists has the
		// deletions of its path behind it.
		if err := trash.begin(tx, l, from, uint64(fromSlot), !dead && len(l.From) > 0); err != nil {
			return nil, err
		}
	}
	more := true
	if l.Only != DeletedItems {
		if dead {
			// The position of a prefix ends with a slash. With it the walk would take the directory for visited, and go on in
			// it. The number is that of a deletion and no slot.
			from, fromSlot = strings.TrimSuffix(from, "/"), 0
		}
		more, err = page.walk(tx, from, fromSlot, &trash)
	}
	if err == nil && more {
		// What was deleted behind the last item that exists.
		_, err = trash.pass(tx, "", true, &page)
	}
	return page.next, err
}

// treePage is a page of a listing of a tree: its methods return false when it is full.
type treePage struct {
	*Listing
	emit  func(Item) error
	count int
	next  []byte
}

// spend does the work of a record; at returns its position.
func (p *treePage) spend(at func() []byte) (more bool, err error) {
	err = p.Work.Spend(recordWork)
	if budget.EndsPage(err) {
		p.Short, p.next = true, at()
		return false, nil
	}
	return err == nil, err
}

func (p *treePage) send(item Item, at func() []byte) (more bool, err error) {
	if p.count == p.Max {
		p.next = at()
		return false, nil
	}
	p.count++
	return true, p.emit(item)
}

// walk sends what exists in a tree, and before each item what was deleted before it in the order of paths.
func (l *treePage) walk(tx *store.Tx, from string, fromSlot Slot, trash *trashWalk) (more bool, err error) {
	// The walk begins at the directory of the last slash of the prefix: the rest of the prefix limits names in it.
	path, prefix := l.Directory, ""
	if !l.Paths {
		i := strings.LastIndexByte(l.Prefix, '/')
		path, prefix = l.Prefix[:max(i, 0)], l.Prefix[i+1:]
	}
	p, err := walkTree(tx, l.gen.root(), path, l.Caller)
	switch {
	// List Paths fails for a directory that does not exist. A listing of blobs is empty then, but for what was deleted
	// below the prefix: more stays true, so that the caller goes on to the trash.
	case l.Paths && (errors.Is(err, ErrPathConflict) || errors.Is(err, ErrPathDepth) ||
		err == nil && !p.item.exists()):
		return false, ErrBlobNotFound
	case errors.Is(err, ErrPathConflict), errors.Is(err, ErrPathDepth), err == nil && p.kind != entryDirectory && !l.Paths:
		return true, nil
	case err != nil:
		return false, err
	case p.kind != entryDirectory: // a file is listed as what it is: Hadoop's contract has it so
		// The file was the only item, so a later page has none.
		if len(l.From) > 0 {
			return false, nil
		}
		return l.sendFile(tx, p.item.inode(), p.path, 0, func(item Item, _ Slot) (bool, error) {
			return l.send(item, func() []byte { return nil })
		})
	}
	if _, err := permit(tx, p.item.inode(), l.Caller, posix.Read|posix.Execute); err != nil {
		return false, err
	}
	if path = p.path; path != "" {
		path += "/"
	}
	w := treeWalk{tx: tx, caller: l.Caller}
	if err := w.begin(p.item.inode(), path, prefix, from); err != nil {
		return false, err
	}
	slot := Slot(0)
	// at is called when a page ends, and returns the position of the item that did not fit; slot is that of the record
	// that sendFile has reached.
	at := func() []byte { return binary.BigEndian.AppendUint64(append([]byte(w.path), 0), uint64(slot)) }
	send := func(item Item, of Slot) (more bool, err error) {
		slot = of
		return l.send(item, at)
	}
	for {
		if more, err = w.next(); err != nil || !more {
			return true, err
		}
		if l.EndBefore != "" && comparePaths(w.path, l.EndBefore) >= 0 {
			return true, nil
		}
		// This precedes all items of the path: walkTree relies on it when it begins the trash behind the deletions of a
		// path.
		if more, err := trash.pass(tx, w.path, false, l); err != nil || !more {
			return false, err
		}
		slot = 0
		if more, err := l.spend(at); err != nil || !more {
			return false, err
		}
		switch {
		case w.last.kind == entryFile && l.Only == Directories:
		case w.last.kind != entryFile && l.Only == Files:
			w.descend = l.Delimiter == ""
		case w.last.kind == entryFile:
			// Only the file at which the page begins was sent in part.
			if w.path != from {
				fromSlot = 0
			}
			more, err = l.sendFile(tx, w.last.inode, w.path, fromSlot, send)
		case l.Delimiter != "" && !l.Paths:
			if err := l.load(tx, w.last.inode); err != nil {
				return false, lostRecord(err)
			}
			// What was deleted in the directory has the same prefix, which must not be an item twice.
			trash.prefix = w.path + "/"
			more, err = send(Item{Prefix: trash.prefix, Blob: &l.rec}, 0)
		default:
			if err := l.load(tx, w.last.inode); err != nil {
				return false, lostRecord(err)
			}
			w.descend = l.Delimiter == ""
			more, err = send(Item{Name: w.path, Blob: &l.rec}, 0)
		}
		if err != nil || !more {
			return false, err
		}
	}
}

// load makes the base record of an inode the current one.
func (l *Listing) load(tx *store.Tx, n inode) error {
	l.nodeKey = appendNodeKey(l.nodeKey[:0], n)
	v := tx.Get(blobsBucket, l.nodeKey)
	if v == nil {
		return ErrBlobNotFound
	}
	return l.decode(v, baseSlot)
}

// lostRecord is the error for an entry of a directory whose record is missing, which is damage: a listing without it
// would pass for the whole.
func lostRecord(err error) error {
	if errors.Is(err, ErrBlobNotFound) {
		return errRecord
	}
	return err
}

// sendFile sends the items of a file from a slot on: snapshots, if they are wanted, and the file itself.
func (l *Listing) sendFile(tx *store.Tx, n inode, path string, from Slot,
	send func(Item, Slot) (bool, error)) (more bool, err error) {
	// The usual listing needs the base record alone: one read, and no cursor.
	if !l.Snapshots && !l.Deleted {
		switch err := l.load(tx, n); {
		// An entry without a record is right only for a file that has uncommitted blocks and nothing else.
		case errors.Is(err, ErrBlobNotFound) && tx.Get(pendingBucket, pendingKey(n.item())) == nil:
			return false, lostRecord(err)
		case errors.Is(err, ErrBlobNotFound):
			if !l.Uncommitted {
				return true, nil
			}
			return send(Item{Name: path}, baseSlot)
		case err != nil:
			return false, err
		case !l.wants():
			return true, nil
		}
		l.rec.finishRehydration(l.Now)
		return send(Item{Name: path, Blob: &l.rec}, baseSlot)
	}
	it, more, found := n.item(), true, false
	err = eachRecord(tx, it, func(b *Blob) (bool, error) {
		found = true
		// found is set before this: the records that an earlier page has sent exist, so the file is not one of uncommitted
		// blocks alone.
		if b.slot < from {
			return true, nil
		}
		l.rec = *b
		if err := l.readName(tx, it, path); err != nil || !l.wants() {
			return true, err
		}
		l.rec.finishRehydration(l.Now)
		more, err = send(Item{Name: path, Blob: &l.rec}, b.slot)
		return more, err
	})
	if err == nil && !found && l.Uncommitted {
		return send(Item{Name: path}, baseSlot)
	}
	return more, err
}
