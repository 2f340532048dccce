package tree

import (
	"strings"

	"github.com/lazuli-storage/lazuli/internal/state/blob/posix"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// Walk visits the entries below a directory, each directory before what is in it, names in the order of their
// bytes: the order of paths in which a slash comes first. It seeks, so that a page costs what is in it.
type Walk struct {
	Tx     *store.Tx
	Caller *posix.Caller
	// Descend is set by the caller if the walk goes on within the last entry, a directory.
	Descend bool
	// Last is the entry that Next has reached, Path its path.
	Last record.Entry
	Path string

	levels []level
	text   record.Texts // of the paths
	key    []byte       // of the last record, used again
}

// level is one directory of the walk.
type level struct {
	record.Range
	path string // of the directory, with a slash behind it; "" for the root
}

// Begin starts at the first entry of a directory, whose path ends with a slash, that begins with prefix, and whose path
// is not before from.
func (w *Walk) Begin(dir record.Inode, path, prefix, from string) error {
	// rest is the part of from below the directory of the current level.
	rest, ok := strings.CutPrefix(from, path)
	if !ok { // from is before or after all of the directory
		if ComparePaths(from, path) > 0 {
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
		if !deeper || l.Key == nil || string(l.Key[8:]) != name {
			return nil
		}
		e, err := record.DecodeEntry(l.Value)
		if err != nil {
			return err
		}
		l.Next() // it was visited before
		if e.Kind != record.EntryDirectory {
			return nil
		}
		if err := w.MayList(e.Inode); err != nil {
			return err
		}
		dir, path, prefix, rest = e.Inode, path+name+"/", "", below
	}
}

func (w *Walk) push(dir record.Inode, path, prefix, from string) *level {
	n := len(w.levels)
	if n < cap(w.levels) {
		w.levels = w.levels[:n+1] // with the cursor of an earlier directory
	} else {
		w.levels = append(w.levels, level{})
	}
	l := &w.levels[n]
	l.path = path
	// A cursor stays with its depth when the level ends, so that a walk opens one per level and not one per directory.
	start := record.EntryKey(dir, prefix)
	l.Within(w.Tx, record.NamesBucket, start)
	if from != prefix {
		start = record.EntryKey(dir, from)
	}
	l.Seek(start)
	return l
}

// Depth is the number of directories from the one where the walk began to that of the last entry, both included.
func (w *Walk) Depth() int { return len(w.levels) }

// MayList checks that the directory's record exists, and the permission to list it.
func (w *Walk) MayList(dir record.Inode) error {
	if w.Caller.Super() {
		w.key = record.AppendNodeKey(w.key[:0], dir)
		if w.Tx.Get(record.BlobsBucket, w.key) == nil {
			return record.ErrBlobNotFound
		}
		return nil
	}
	_, err := Permit(w.Tx, dir, w.Caller, posix.Read|posix.Execute)
	return err
}

// Next moves to the next entry; more is false at the end.
func (w *Walk) Next() (more bool, err error) {
	// The caller decides after it has seen the directory whether the walk goes into it, so the level is opened here.
	// The level above has moved behind the directory already and goes on there when this one ends.
	if w.Descend {
		w.Descend = false
		if err := w.MayList(w.Last.Inode); err != nil {
			return false, err
		}
		w.push(w.Last.Inode, w.text.Joined(w.Path, slash), "", "")
	}
	for len(w.levels) > 0 {
		l := &w.levels[len(w.levels)-1]
		if l.Key == nil {
			w.levels = w.levels[:len(w.levels)-1]
			continue
		}
		if w.Last, err = record.DecodeEntry(l.Value); err != nil {
			return false, err
		}
		w.Path = w.text.Joined(l.path, l.Key[8:])
		l.Next()
		return true, nil
	}
	return false, nil
}

var slash = []byte("/")

// ComparePaths compares in the order of listings.
func ComparePaths(a, b string) int {
	return strings.Compare(strings.ReplaceAll(a, "/", "\x00"), strings.ReplaceAll(b, "/", "\x00"))
}
