package listing

import (
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// Page calls emit with the items of a page in order, and returns where the next page begins, nil at the end.
func (l *Blobs) Page(tx *store.Tx, account, container string, emit func(Item) error) (next []byte, err error) {
	if l.gen == 0 {
		if l.gen, err = record.GenerationOf(tx, account, container); err != nil {
			return nil, err
		}
	}
	if l.gen.IsTree() {
		return l.walkTree(tx, emit)
	}
	return l.walk(tx, emit)
}
