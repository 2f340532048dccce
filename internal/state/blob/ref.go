package blob

import (
	"errors"

	"github.com/lazuli-storage/lazuli/internal/state/blob/posix"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/state/blob/tree"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// Ref names a blob record: the base blob, or one of its snapshots or versions.
type Ref struct {
	Account, Container, Blob string
	At                       record.Address
	// Caller limits what may be read and changed in a tree; nil is the superuser.
	Caller *posix.Caller
}

// find returns the place of the path that r names. It fails with [record.ErrContainerNotFound], and as [tree.Find]
// does.
func (r *Ref) find(tx *store.Tx) (tree.Place, error) {
	gen, err := record.GenerationOf(tx, r.Account, r.Container)
	if err != nil {
		return tree.Place{}, err
	}
	return tree.Find(tx, gen, r.Blob, r.Caller)
}

// existing is the item of the path that r names; [record.ErrBlobNotFound] if it does not exist, as no path with too
// many directories does.
func (r *Ref) existing(tx *store.Tx) (record.Item, error) {
	p, err := r.find(tx)
	switch {
	case errors.Is(err, tree.ErrPathConflict), errors.Is(err, tree.ErrPathDepth):
		return record.Item{}, record.ErrBlobNotFound
	case err == nil && !p.Item.Exists():
		err = record.ErrBlobNotFound
	}
	return p.Item, err
}
