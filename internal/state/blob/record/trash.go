package record

import (
	"bytes"
	"encoding/binary"

	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// Trash is a deleted file or directory.
type Trash struct {
	Inode   Inode
	Kind    byte
	Deleted ticks.Ticks
	Days    int64
}

func (t *Trash) PurgeAt() ticks.Ticks { return t.Deleted + ticks.Ticks(t.Days)*Day }

func (t *Trash) Encode() []byte {
	e := newEncoder(32)
	e.b = append(e.b, t.Kind)
	e.uvarint(uint64(t.Inode))
	e.uvarint(uint64(t.Deleted))
	e.uvarint(uint64(t.Days))
	return e.b
}

func DecodeTrash(v []byte) (t Trash, err error) {
	d := newDecoder(v)
	t = Trash{Kind: d.byte(), Inode: Inode(d.uint()), Deleted: ticks.Ticks(d.uint()), Days: int64(d.uint())}
	return t, d.err()
}

// The path of a key has 0x01 in the place of slashes, so that the order of keys is that of listings: what is in a
// directory follows it.
func TrashKey(root Inode, path string, deletion uint64) []byte {
	k := append(IDPrefix(uint64(root)), bytes.ReplaceAll([]byte(path), []byte("/"), []byte{1})...)
	return binary.BigEndian.AppendUint64(append(k, 0), deletion)
}

func ParseTrashKey(k []byte) (root Inode, path string, deletion uint64, err error) {
	if len(k) < 8+1+1+8 || k[len(k)-9] != 0 {
		return 0, "", 0, ErrKey
	}
	return Inode(binary.BigEndian.Uint64(k)), string(bytes.ReplaceAll(k[8:len(k)-9], []byte{1}, []byte("/"))),
		binary.BigEndian.Uint64(k[len(k)-8:]), nil
}
