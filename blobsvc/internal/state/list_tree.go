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
}

// treeLevel is one directory of the walk.
type treeLevel struct {
	walker
	path string // of the directory, with a slash behind it; "" for the root
}

// begin starts at the first entry of a directory, whose path ends with a slash, that begins with prefix, and whose path
// is not before from.
func (w *treeWalk) begin(dir inode, path, prefix, from string) error {
	rest, ok := strings.CutPrefix(from, path)
	if !ok { // from is before or after all of the directory
		if comparePaths(from, path) > 0 {
			return nil
		}
		rest = ""
	}
	for {
		name, below, deeper := strings.Cut(rest, "/")
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
		if _, err := permit(w.tx, e.inode, w.caller, posix.Read|posix.Execute); err != nil {
			return err
		}
		dir, path, prefix, rest = e.inode, path+name+"/", "", below
	}
}

func (w *treeWalk) push(dir inode, path, prefix, from string) *treeLevel {
	l := treeLevel{walker{cur: w.tx.Cursor(namesBucket), within: entryKey(dir, prefix)}, path}
	l.seek(entryKey(dir, from))
	w.levels = append(w.levels, l)
	return &w.levels[len(w.levels)-1]
}

// next moves to the next entry; more is false at the end.
func (w *treeWalk) next() (more bool, err error) {
	if w.descend {
		w.descend = false
		if _, err := permit(w.tx, w.last.inode, w.caller, posix.Read|posix.Execute); err != nil {
			return false, err
		}
		w.push(w.last.inode, w.path+"/", "", "")
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
		w.path = l.path + string(l.key[8:])
		l.walker.next()
		return true, nil
	}
	return false, nil
}

// comparePaths compares in the order of listings.
func comparePaths(a, b string) int {
	return strings.Compare(strings.ReplaceAll(a, "/", "\x00"), strings.ReplaceAll(b, "/", "\x00"))
}

// walkTree is walk for a tree. A page begins at a path, and within it at a slot.
func (l *Listing) walkTree(tx *store.Tx, emit func(Item) error) (next []byte, err error) {
	path, prefix := l.Directory, ""
	if !l.Paths {
		i := strings.LastIndexByte(l.Prefix, '/')
		path, prefix = l.Prefix[:max(i, 0)], l.Prefix[i+1:]
	}
	p, err := walkTree(tx, l.gen.root(), path, l.Caller)
	switch {
	case l.Paths && (errors.Is(err, ErrPathConflict) || err == nil && !p.item.exists()):
		return nil, ErrBlobNotFound
	case errors.Is(err, ErrPathConflict), err == nil && p.kind != entryDirectory && !l.Paths:
		return nil, nil
	case err != nil:
		return nil, err
	case p.kind != entryDirectory:
		return nil, ErrPathConflict
	}
	if _, err := permit(tx, p.item.inode(), l.Caller, posix.Read|posix.Execute); err != nil {
		return nil, err
	}
	if path = p.path; path != "" {
		path += "/"
	}
	from, fromSlot := string(l.From), Slot(0)
	if i := bytes.IndexByte(l.From, 0); i >= 0 {
		if len(l.From) != i+9 {
			return nil, errKey
		}
		from, fromSlot = string(l.From[:i]), Slot(binary.BigEndian.Uint64(l.From[i+1:]))
	}
	w := treeWalk{tx: tx, caller: l.Caller}
	if err := w.begin(p.item.inode(), path, prefix, from); err != nil {
		return nil, err
	}
	count := 0
	send := func(item Item, slot Slot) (more bool, err error) {
		if count == l.Max {
			next = binary.BigEndian.AppendUint64(append([]byte(w.path), 0), uint64(slot))
			return false, nil
		}
		count++
		return true, emit(item)
	}
	for {
		more, err := w.next()
		if err != nil || !more {
			return nil, err
		}
		if err := l.Work.Spend(recordWork); budget.EndsPage(err) {
			l.Short = true
			return append(append([]byte(w.path), 0), make([]byte, 8)...), nil
		} else if err != nil {
			return nil, err
		}
		if l.EndBefore != "" && comparePaths(w.path, l.EndBefore) >= 0 {
			return nil, nil
		}
		switch {
		case w.last.kind == entryFile:
			if w.path != from {
				fromSlot = 0
			}
			more, err = l.sendFile(tx, w.last.inode.item(), w.path, fromSlot, send)
		case l.Delimiter != "" && !l.Paths:
			more, err = send(Item{Prefix: w.path + "/"}, 0)
		default:
			if err := loadBlob(tx, w.last.inode.item(), baseSlot, &l.rec); err != nil {
				return nil, err
			}
			w.descend = l.Delimiter == ""
			more, err = send(Item{Name: w.path, Blob: &l.rec}, 0)
		}
		if err != nil || !more {
			return next, err
		}
	}
}

// sendFile sends the items of a file from a slot on: snapshots, if they are wanted, and the file itself.
func (l *Listing) sendFile(tx *store.Tx, it item, path string, from Slot,
	send func(Item, Slot) (bool, error)) (more bool, err error) {
	if !l.Snapshots && !l.Deleted {
		switch err := loadBlob(tx, it, baseSlot, &l.rec); {
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
	more, found := true, false
	err = eachRecord(tx, it, func(b *Blob) (bool, error) {
		found = true
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
