package listing

import (
	"bytes"
	"encoding/binary"
	"strings"

	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
)

// position is the place where a page of a tree begins, in the order of paths: a record that exists at a path, or a
// deletion of that path. Of one path the deletions come first. In a marker it has one of three forms; no name has 0x00:
//
//	path                     the beginning of the path
//	path 0x00 slot(8)        a record of what exists
//	path 0x00 number(8) 't'  a deletion by its number; with the number 0 a prefix, which ends with a slash
type position struct {
	path string
	// number is a slot or, in the trash, the number of a deletion.
	number uint64
	trash  bool
}

// trashEntry ends the position of a page that begins in the trash.
const trashEntry = 't'

// parsePosition fails with [record.ErrKey].
func parsePosition(marker []byte) (p position, err error) {
	end := bytes.IndexByte(marker, 0)
	if end < 0 {
		return position{path: string(marker)}, nil
	}
	p.trash = len(marker) == end+10 && marker[end+9] == trashEntry
	if len(marker) != end+9 && !p.trash {
		return p, record.ErrKey
	}
	p.path = string(marker[:end])
	p.number = binary.BigEndian.Uint64(marker[end+1:])
	return p, nil
}

func (p position) encode() []byte {
	marker := binary.BigEndian.AppendUint64(append([]byte(p.path), 0), p.number)
	if p.trash {
		marker = append(marker, trashEntry)
	}
	return marker
}

// existing returns the first position at or after p that is not a deletion.
func (p position) existing() position {
	if p.trash {
		// All that exists at the path is behind its deletions, and the number is that of a deletion and no slot. With the
		// slash of a prefix the walk would take the directory for visited, and go on in it.
		return position{path: strings.TrimSuffix(p.path, "/")}
	}
	return p
}
