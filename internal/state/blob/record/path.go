package record

import (
	"errors"
	"strings"

	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// MaxNesting bounds the way from an inode to its root, for the sake of damaged records. Renames of directories make
// paths that are longer than a request may have.
const MaxNesting = 1 << 16

// PathOf returns the container and the path of an inode. ok is false if it is not reachable: it, or a directory above
// it, was deleted.
func PathOf(tx *store.Tx, n Inode) (account, container, path string, ok bool, err error) {
	var segments []string
	// Bounded, since damage may have made a circle of directories.
	for range MaxNesting {
		var b Blob
		switch err := LoadBlob(tx, n.Item(), BaseSlot, &b); {
		case errors.Is(err, ErrBlobNotFound):
			return "", "", "", false, nil
		case err != nil:
			return "", "", "", false, err
		case b.Node == nil:
			return "", "", "", false, ErrMalformed
		}
		if b.Node.Parent == 0 { // a root
			account, container, err := ParseContainerKey([]byte(b.Node.Name))
			if err != nil {
				return "", "", "", false, err
			}
			gen, err := GenerationOf(tx, account, container)
			// The container was deleted, or another one has its name by now.
			if errors.Is(err, ErrContainerNotFound) || err == nil && gen.Root() != n {
				return "", "", "", false, nil
			}
			for i, j := 0, len(segments)-1; i < j; i, j = i+1, j-1 {
				segments[i], segments[j] = segments[j], segments[i]
			}
			return account, container, strings.Join(segments, "/"), true, err
		}
		// The record names its place, but only an entry that leads back makes it reachable: what was deleted keeps its
		// record, and another inode may have the name.
		e, found, err := Child(tx, b.Node.Parent, b.Node.Name)
		if err != nil || !found || e.Inode != n {
			return "", "", "", false, err
		}
		segments = append(segments, b.Node.Name)
		n = b.Node.Parent
	}
	return "", "", "", false, ErrMalformed
}
