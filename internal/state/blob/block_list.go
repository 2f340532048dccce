package blob

import "github.com/lazuli-storage/lazuli/internal/state/blob/content"

// MaxCommittedBlocks is the number of blocks in a block list.
const MaxCommittedBlocks = 50_000

// BlockSource says where a block of a block list is to be looked for.
type BlockSource byte

const (
	FromCommitted BlockSource = iota + 1
	FromUncommitted
	FromLatest
)

// BlockRef is one entry of the list that Put Block List was given.
type BlockRef struct {
	Source BlockSource
	// ID is the block id, before base64.
	ID string
}

// assemble decides what Put Block List commits: the pieces of the new blob, in the order of refs. committed holds the
// pieces of the committed blob, uncommitted looks up an uncommitted block. Latest means the uncommitted block, and the
// committed one only if none exists. A block may be named more than once. It fails with errBlockList if a
// block is not where it was said to be.
//
// Whatever is not in the result is dropped by the caller: uncommitted blocks that are not named are discarded.
// https://learn.microsoft.com/rest/api/storageservices/put-block-list#remarks
func assemble(refs []BlockRef, committed []content.Piece,
	uncommitted func(id string) (content.Piece, bool, error)) ([]content.Piece, error) {
	if len(refs) > MaxCommittedBlocks {
		return nil, ErrBlockListTooLong
	}
	// Made when the first committed block is looked for: the usual list names uncommitted ones alone.
	var byID map[string]*content.Piece
	find := func(id string) *content.Piece {
		if byID == nil {
			byID = make(map[string]*content.Piece, len(committed))
			for i := range committed {
				// Of two committed blocks of one ID the first counts.
				if _, seen := byID[committed[i].Block]; !seen {
					byID[committed[i].Block] = &committed[i]
				}
			}
			// Content that was written as a whole has no block ID, and cannot be named.
			delete(byID, "")
		}
		return byID[id]
	}
	out := make([]content.Piece, 0, len(refs))
	var total int64
	// Each round finds one block of the list. Latest looks in both places, in this order.
	for _, ref := range refs {
		var p content.Piece
		found := false
		if ref.Source != FromCommitted {
			var err error
			if p, found, err = uncommitted(ref.ID); err != nil {
				return nil, err
			}
		}
		if !found && ref.Source != FromUncommitted {
			if c := find(ref.ID); c != nil {
				p, found = *c, true
			}
		}
		if !found {
			return nil, ErrBlockList
		}
		// An uncommitted block has its ID in its key alone. From here on it is one of the committed.
		p.Block = ref.ID
		if total += p.Length; total < 0 {
			return nil, ErrBlockListTooLong
		}
		out = append(out, p)
	}
	return out, nil
}
