package state

import (
	"encoding/binary"
	"errors"
	"strings"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/posix"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// The namespace is the seam between names and records. All records of a blob - the committed one, snapshots, versions,
// uncommitted blocks, a pending copy - have keys that begin with its item. Everything above the seam works on items.
//
//   - In a container of a flat account the item is the container's generation and the name.
//   - In a hierarchical account a container is a tree: its directories and files are inodes, and the names bucket has
//     the entries of
//     directories. The item is the inode, so that a rename changes one entry and leaves the rest of what is below untouched.
//
// The number of a container's generation is that of its root directory as well; its highest bit says which of the two
// the container is, so that a flat container costs nothing more.

// item is the first part of the keys of all records of a blob. The zero value is that of a path that does not exist.
type item struct {
	gen  generation
	name string
}

// treeBit marks the generation of a container that is a tree. Alone it is the generation of the items of all trees.
const treeBit generation = 1 << 63

func (g generation) isTree() bool { return g&treeBit != 0 }

// root is the root directory of a tree.
func (g generation) root() inode { return inode(g &^ treeBit) }

// inode is the number of a directory or file.
type inode uint64

func (n inode) item() item {
	return item{treeBit, string(binary.BigEndian.AppendUint64(nil, uint64(n)))}
}

// item is the item of a name in a flat container.
func (g generation) item(name string) item { return item{g, name} }

// inTree reports whether the item is an inode.
func (it item) inTree() bool { return it.gen == treeBit }

// inode is the number of an item in a tree.
func (it item) inode() inode {
	if !it.inTree() || len(it.name) != 8 {
		return 0
	}
	return inode(binary.BigEndian.Uint64([]byte(it.name)))
}

func (it item) exists() bool { return it.gen != 0 }

// The kinds of entries of a directory.
const (
	entryFile      byte = 'f'
	entryDirectory byte = 'd'
)

// entry is the entry of a directory, the value of a name.
type entry struct {
	inode inode
	kind  byte
}

func (e entry) encode() []byte {
	return append(binary.BigEndian.AppendUint64(make([]byte, 0, 9), uint64(e.inode)), e.kind)
}

func decodeEntry(v []byte) (e entry, err error) {
	if len(v) != 9 || v[8] != entryFile && v[8] != entryDirectory {
		return e, errRecord
	}
	return entry{inode(binary.BigEndian.Uint64(v)), v[8]}, nil
}

func entryKey(parent inode, name string) []byte {
	k := make([]byte, 8, 8+len(name))
	binary.BigEndian.PutUint64(k, uint64(parent))
	return append(k, name...)
}

func parseEntryKey(k []byte) (parent inode, name string, err error) {
	if len(k) < 9 {
		return 0, "", errKey
	}
	return inode(binary.BigEndian.Uint64(k)), string(k[8:]), nil
}

// child returns the entry of a directory; ok is false if it has none of the name.
func child(tx *store.Tx, parent inode, name string) (e entry, ok bool, err error) {
	v := tx.Get(namesBucket, entryKey(parent, name))
	if v == nil {
		return e, false, nil
	}
	e, err = decodeEntry(v)
	return e, err == nil, err
}

// place is the place where a path leads: its item, and in a tree the directory that has it.
type place struct {
	item item
	kind byte // of the item, if it is in a tree
	// path is without empty segments; "" is the root.
	path string
	// parent is the deepest directory on the way that exists, name the last segment. missing are the directories between
	// them.
	parent  inode
	name    string
	missing []string
	// above are the directories on the way, the root first.
	above []inode
}

// MaxDepth is the maximum number of directories above a file or directory, and MaxSegment the length in bytes of one
// name. The service counts 63 segments with those of account and filesystem; the live tests of the SDK for Go create 60
// directories within each other and no 61st.
const (
	MaxDepth   = 59
	MaxSegment = 255 * 4
)

// CleanPath returns the segments of a path in a tree, where empty ones count as none, and the path that consists of
// them alone. It fails with [ErrBlobName] for . and .. and long segments.
func CleanPath(path string) (clean string, segments []string, err error) {
	segments = make([]string, 0, min(strings.Count(path, "/"), MaxDepth+1)+1)
	size := -1
	for s := range strings.SplitSeq(path, "/") {
		switch {
		case s == "":
			continue
		case s == "." || s == ".." || len(s) > MaxSegment:
			return "", nil, ErrBlobName
		}
		segments = append(segments, s)
		size += 1 + len(s)
	}
	if size == len(path) {
		return path, segments, nil
	}
	return strings.Join(segments, "/"), segments, nil
}

// find returns the place of the path that r names. It fails with [ErrContainerNotFound], and in a tree with [ErrAccess]
// if the caller may not pass a directory on the way, [ErrPathConflict] if one of them is a file, and [ErrPathDepth] if
// they are too many.
func (r *Ref) find(tx *store.Tx) (place, error) {
	gen, err := containerGeneration(tx, r.Account, r.Container)
	if err != nil || !gen.isTree() {
		return place{item: item{gen, r.Blob}}, err
	}
	return walkTree(tx, gen.root(), r.Blob, r.Caller)
}

// existing is the item of the path that r names; [ErrBlobNotFound] if it does not exist, as no path with too many
// directories does.
func (r *Ref) existing(tx *store.Tx) (item, error) {
	p, err := r.find(tx)
	switch {
	case errors.Is(err, ErrPathConflict), errors.Is(err, ErrPathDepth):
		return item{}, ErrBlobNotFound
	case err == nil && !p.item.exists():
		err = ErrBlobNotFound
	}
	return p.item, err
}

func walkTree(tx *store.Tx, root inode, path string, caller *posix.Caller) (p place, err error) {
	path, segments, err := CleanPath(path)
	if err != nil {
		return p, err
	}
	if len(segments) > MaxDepth+1 {
		return p, ErrPathDepth
	}
	p = place{kind: entryDirectory, parent: root, path: path, above: make([]inode, 0, len(segments))}
	at := entry{root, entryDirectory}
	key := make([]byte, 0, 64)
	// In each round at is the entry that the segments so far lead to. Permissions are checked before the name is looked
	// up, so that a caller who may not pass a directory does not learn what is in it.
	for i, s := range segments {
		if at.kind != entryDirectory {
			return p, ErrPathConflict
		}
		if err := mayPass(tx, at.inode, caller); err != nil {
			return p, err
		}
		p.parent, p.name, p.above = at.inode, segments[len(segments)-1], append(p.above, at.inode)
		key = append(binary.BigEndian.AppendUint64(key[:0], uint64(at.inode)), s...)
		v := tx.Get(namesBucket, key)
		if v == nil {
			// Nothing below a missing name exists. The segments from it on, without the last, are the directories that a
			// write creates; item stays zero.
			p.kind, p.missing = 0, segments[i:len(segments)-1]
			return p, nil
		}
		if at, err = decodeEntry(v); err != nil {
			return p, err
		}
	}
	p.item, p.kind = at.inode.item(), at.kind
	return p, nil
}

// mayPass checks the permission to look up a name in a directory.
func mayPass(tx *store.Tx, dir inode, caller *posix.Caller) error {
	if caller.Super() {
		return nil
	}
	_, err := permit(tx, dir, caller, posix.Execute)
	return err
}

// permit reads an inode's record and checks that the caller has permissions on it.
func permit(tx *store.Tx, n inode, caller *posix.Caller, want posix.Perm) (b Blob, err error) {
	if err := loadBlob(tx, n.item(), baseSlot, &b); err != nil {
		return b, err
	}
	return b, b.permit(caller, want)
}

// permit checks that the caller has permissions on b. Blobs of flat accounts have no lists.
func (b *Blob) permit(caller *posix.Caller, want posix.Perm) error {
	if b.Node == nil || b.Node.Access.Allows(caller, b.Node.Owner, b.Node.Group, want) {
		return nil
	}
	return ErrAccess
}

// maxNesting bounds the way from an inode to its root, for the sake of damaged records. Renames of directories make
// paths that are longer than [MaxDepth] permits in a request.
const maxNesting = 1 << 16

// pathOf returns the container and the path of an inode. ok is false if it is not reachable: it, or a directory above
// it, was deleted.
func pathOf(tx *store.Tx, n inode) (account, container, path string, ok bool, err error) {
	var segments []string
	for range maxNesting {
		var b Blob
		switch err := loadBlob(tx, n.item(), baseSlot, &b); {
		case errors.Is(err, ErrBlobNotFound):
			return "", "", "", false, nil
		case err != nil:
			return "", "", "", false, err
		case b.Node == nil:
			return "", "", "", false, errRecord
		}
		if b.Node.parent == 0 { // a root
			account, container, err := parseContainerKey([]byte(b.Node.name))
			if err != nil {
				return "", "", "", false, err
			}
			gen, err := containerGeneration(tx, account, container)
			if errors.Is(err, ErrContainerNotFound) || err == nil && gen.root() != n {
				return "", "", "", false, nil
			}
			for i, j := 0, len(segments)-1; i < j; i, j = i+1, j-1 {
				segments[i], segments[j] = segments[j], segments[i]
			}
			return account, container, strings.Join(segments, "/"), true, err
		}
		// The record names its place, but only an entry that leads back makes it reachable: what was deleted keeps its
		// record, and another inode may have the name.
		e, found, err := child(tx, b.Node.parent, b.Node.name)
		if err != nil || !found || e.inode != n {
			return "", "", "", false, err
		}
		segments = append(segments, b.Node.name)
		n = b.Node.parent
	}
	return "", "", "", false, errRecord
}
