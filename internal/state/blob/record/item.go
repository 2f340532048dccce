package record

import (
	"encoding/binary"

	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// The namespace is the seam between names and records. All records of a blob - the committed one, snapshots, versions,
// uncommitted blocks, a pending copy - have keys that begin with its item. Everything above the seam works on items.
//
//   - In a container of a flat account the item is the container's generation and the name.
//   - In a hierarchical account a container is a tree: its directories and files are inodes, and the names bucket has
//     the entries of directories. The item is the inode, so that a rename changes one entry and leaves the rest of what
//     is below untouched.
//
// The number of a container's generation is that of its root directory as well; its highest bit says which of the two
// the container is, so that a flat container costs nothing more.

// Item is the first part of the keys of all records of a blob. The zero value is that of a path that does not exist.
type Item struct {
	Generation Generation
	Name       string
}

// TreeBit marks the generation of a container that is a tree. Alone it is the generation of the items of all trees.
const TreeBit Generation = 1 << 63

func (g Generation) IsTree() bool { return g&TreeBit != 0 }

// Root is the root directory of a tree.
func (g Generation) Root() Inode { return Inode(g &^ TreeBit) }

// Inode is the number of a directory or file.
type Inode uint64

func (n Inode) Item() Item {
	return Item{TreeBit, string(binary.BigEndian.AppendUint64(nil, uint64(n)))}
}

// Item is the item of a name in a flat container.
func (g Generation) Item(name string) Item { return Item{g, name} }

// InTree reports whether the item is an inode.
func (it Item) InTree() bool { return it.Generation == TreeBit }

// Inode is the number of an item in a tree.
func (it Item) Inode() Inode {
	if !it.InTree() || len(it.Name) != 8 {
		return 0
	}
	return Inode(binary.BigEndian.Uint64([]byte(it.Name)))
}

func (it Item) Exists() bool { return it.Generation != 0 }

// The kinds of entries of a directory.
const (
	EntryFile      byte = 'f'
	EntryDirectory byte = 'd'
)

// Entry is the entry of a directory, the value of a name.
type Entry struct {
	Inode Inode
	Kind  byte
}

func (e Entry) Encode() []byte {
	return append(binary.BigEndian.AppendUint64(make([]byte, 0, 9), uint64(e.Inode)), e.Kind)
}

func DecodeEntry(v []byte) (e Entry, err error) {
	if len(v) != 9 || v[8] != EntryFile && v[8] != EntryDirectory {
		return e, ErrMalformed
	}
	return Entry{Inode(binary.BigEndian.Uint64(v)), v[8]}, nil
}

func EntryKey(parent Inode, name string) []byte {
	k := make([]byte, 8, 8+len(name))
	binary.BigEndian.PutUint64(k, uint64(parent))
	return append(k, name...)
}

func ParseEntryKey(k []byte) (parent Inode, name string, err error) {
	if len(k) < 9 {
		return 0, "", ErrKey
	}
	return Inode(binary.BigEndian.Uint64(k)), string(k[8:]), nil
}

// Child returns the entry of a directory; ok is false if it has none of the name.
func Child(tx *store.Tx, parent Inode, name string) (e Entry, ok bool, err error) {
	v := tx.Get(NamesBucket, EntryKey(parent, name))
	if v == nil {
		return e, false, nil
	}
	e, err = DecodeEntry(v)
	return e, err == nil, err
}

// MaxSegment is the maximum length in bytes of one name in a tree.
const MaxSegment = 255 * 4
