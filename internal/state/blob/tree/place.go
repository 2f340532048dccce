package tree

import (
	"encoding/binary"
	"strings"

	"github.com/lazuli-storage/lazuli/internal/state/blob/posix"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// Place is the place where a path leads: its item, and in a tree the directory that it is in.
type Place struct {
	Item record.Item
	Kind byte // of the item, if it is in a tree
	// Path is without empty segments; "" is the root.
	Path string
	// Parent is the deepest directory on the way that exists, 0 in a flat container. Name is the last segment. Missing are
	// the directories between them.
	Parent  record.Inode
	Name    string
	Missing []string
	// Above are the directories on the way, the root first.
	Above []record.Inode
}

// InTree reports whether the place is in a tree.
func (p *Place) InTree() bool { return p.Parent != 0 }

// MaxDepth is the maximum number of directories above a file or directory. The service counts 63 segments with those of
// account and filesystem; the live tests of the SDK for Go create 60 directories within each other and no 61st.
const MaxDepth = 59

// CleanPath returns the segments of a path in a tree, where empty ones count as none, and the path that consists of
// them alone. It fails with [record.ErrBlobName] for . and .. and long segments.
func CleanPath(path string) (clean string, segments []string, err error) {
	segments = make([]string, 0, min(strings.Count(path, "/"), MaxDepth+1)+1)
	size := -1
	for s := range strings.SplitSeq(path, "/") {
		switch {
		case s == "":
			continue
		case s == "." || s == ".." || len(s) > record.MaxSegment:
			return "", nil, record.ErrBlobName
		}
		segments = append(segments, s)
		size += 1 + len(s)
	}
	if size == len(path) {
		return path, segments, nil
	}
	return strings.Join(segments, "/"), segments, nil
}

// Find returns the place of a path in a container. In a tree it fails with [record.ErrAccess] if the caller may not
// pass a directory on the way, [ErrPathConflict] if one of them is a file, and [ErrPathDepth] if they are too many.
func Find(tx *store.Tx, gen record.Generation, path string, caller *posix.Caller) (p Place, err error) {
	if !gen.IsTree() {
		return Place{Item: gen.Item(path)}, nil
	}
	root := gen.Root()
	path, segments, err := CleanPath(path)
	if err != nil {
		return p, err
	}
	if len(segments) > MaxDepth+1 {
		return p, ErrPathDepth
	}
	p = Place{Kind: record.EntryDirectory, Parent: root, Path: path, Above: make([]record.Inode, 0, len(segments))}
	at := record.Entry{Inode: root, Kind: record.EntryDirectory}
	key := make([]byte, 0, 64)
	// In each round at is the entry that the segments so far lead to. Permissions are checked before the name is looked
	// up, so that a caller who may not pass a directory does not learn what is in it.
	for i, s := range segments {
		if at.Kind != record.EntryDirectory {
			return p, ErrPathConflict
		}
		if err := mayPass(tx, at.Inode, caller); err != nil {
			return p, err
		}
		p.Parent = at.Inode
		p.Name = segments[len(segments)-1]
		p.Above = append(p.Above, at.Inode)
		key = append(binary.BigEndian.AppendUint64(key[:0], uint64(at.Inode)), s...)
		v := tx.Get(record.NamesBucket, key)
		if v == nil {
			// Nothing below a missing name exists. The segments from it on, without the last, are the directories that a
			// write creates; Item stays zero.
			p.Kind = 0
			p.Missing = segments[i : len(segments)-1]
			return p, nil
		}
		if at, err = record.DecodeEntry(v); err != nil {
			return p, err
		}
	}
	p.Item = at.Inode.Item()
	p.Kind = at.Kind
	return p, nil
}

// mayPass checks the permission to look up a name in a directory.
func mayPass(tx *store.Tx, dir record.Inode, caller *posix.Caller) error {
	if caller.Super() {
		return nil
	}
	_, err := Permit(tx, dir, caller, posix.Execute)
	return err
}

// Permit reads an inode's record and checks that the caller has permissions on it.
func Permit(tx *store.Tx, n record.Inode, caller *posix.Caller, want posix.Perm) (b record.Blob, err error) {
	if err := record.LoadBlob(tx, n.Item(), record.BaseSlot, &b); err != nil {
		return b, err
	}
	return b, b.Permit(caller, want)
}
