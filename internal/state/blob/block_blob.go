package blob

import (
	"bytes"
	"cmp"
	"errors"

	"github.com/lazuli-storage/lazuli/internal/state/blob/content"
	"github.com/lazuli-storage/lazuli/internal/state/blob/lease"
	"github.com/lazuli-storage/lazuli/internal/state/blob/posix"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/state/blob/tree"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// Limits of block blobs.
// https://learn.microsoft.com/rest/api/storageservices/understanding-block-blobs--append-blobs--and-page-blobs
const (
	// maxUncommittedBlocks is the number of uncommitted blocks of one blob.
	maxUncommittedBlocks = 100_000
)

// CheckBlock reports early whether a block is worth receiving: it fails as StageBlock would. Of the preconditions, the
// lease alone counts.
func (s BlockBlobs) CheckBlock(w *Write) error {
	return s.db.View(func(tx *store.Tx) error {
		p, err := w.find(tx)
		if err != nil {
			return err
		}
		return w.checkBlockTarget(tx, p.Item, ticks.Of(w.Now))
	})
}

// checkBlockTarget checks the blob for which a block is staged: it does not exist, or it is a block blob that the
// caller may overwrite and whose lease the caller holds.
func (w *Write) checkBlockTarget(tx *store.Tx, it record.Item, now ticks.Ticks) error {
	var b record.Blob
	switch err := record.GetBlob(tx, it, record.BaseSlot, now, &b); {
	case err == nil:
		// A block changes nothing that can be read. It is refused where the commit would be, so that a client does not upload
		// many before it learns that.
		if !w.Rights.Overwrite {
			return ErrOverwriteForbidden
		}
		if b.Kind != record.BlockBlob {
			return ErrBlobType
		}
		if b.IsDirectory() {
			return tree.ErrPathConflict
		}
		if err := b.Permit(w.Caller, posix.Write); err != nil {
			return err
		}
		if b.Lake {
			return ErrLake
		}
		if err := b.Lease.CheckWrite(w.If.LeaseID, now, &lease.OfBlob); err != nil {
			return err
		}
		// An archived blob takes no blocks: https://github.com/Azure/azure-storage-azcopy/issues/993
		if b.FinishRehydration(now); b.Tier == record.ArchiveTier {
			return ErrArchived
		}
		return nil
	case errors.Is(err, record.ErrBlobNotFound):
		// A blob of uncommitted blocks alone can be leased as well; its lease is with the blocks.
		held, err := uncommittedLease(tx, it)
		if err != nil {
			return err
		}
		return held.CheckWrite(w.If.LeaseID, now, &lease.OfBlob)
	default:
		return err
	}
}

// StageBlock records an uncommitted block with the content that was uploaded. Of the preconditions, the lease alone
// counts.
func (s BlockBlobs) StageBlock(w *Write, id string, up *content.Upload) (Result, error) {
	return s.update(w, func(c *change) error {
		if err := c.enter(); err != nil {
			return err
		}
		if err := c.expireDue(); err != nil { // its uncommitted blocks go with it
			return err
		}
		if err := c.checkBlockTarget(c.tx, c.Item, c.now); err != nil {
			return err
		}
		if c.InTree() {
			if err := c.link(nil); err != nil {
				return err
			}
		}
		c.result.Encryption = up.Encryption()
		return c.stage(id, up)
	})
}

// stage records an uncommitted block of the blob.
func (c *change) stage(id string, up *content.Upload) error {
	key := record.PendingKey(c.Item)
	p := record.Pending{IDLength: len(id), Parent: c.Parent, Name: c.Name}
	if v := c.tx.Get(record.PendingBucket, key); v != nil {
		var err error
		if p, err = record.DecodePending(v); err != nil {
			return err
		}
	} else {
		p.Set = record.NextID(c.tx)
	}
	// All IDs of the uncommitted blocks of a blob have one length. The first block sets it.
	if p.IDLength != len(id) {
		return ErrBlockID
	}
	block := record.BlockKey(p.Set, id)
	// A block that is staged twice replaces the earlier one and does not count again.
	if c.tx.Get(record.BlocksBucket, block) == nil {
		if p.Count >= maxUncommittedBlocks {
			return ErrTooManyBlocks
		}
		p.Count++
	}
	p.Last = c.now
	c.tx.Put(record.PendingBucket, key, p.Encode())
	c.tx.Put(record.BlocksBucket, block, record.EncodeBlock(up.Pieces(c.tx)[0]))
	return nil
}

// PutBlockList makes the blocks that refs name the content of blob, and writes it as Blobs.Put does.
func (s BlockBlobs) PutBlockList(w *Write, blob *record.Blob, refs []BlockRef) (Result, error) {
	return s.update(w, func(c *change) error {
		b := *blob
		if err := c.enter(); err != nil {
			return err
		}
		if err := c.expireDue(); err != nil {
			return err
		}
		var old record.Blob
		committed, err := c.committedBlocks(&old)
		if err != nil {
			return err
		}
		if old.Kind == 0 && c.If.IfModifiedSince.After(c.Now) && c.tx.Get(record.PendingBucket,
			record.PendingKey(c.Item)) != nil {
			return ErrConditionNotMet // Azure takes the uncommitted blob for one that has not changed since
		}
		// The pieces are taken before replace, which drops the uncommitted blocks and the committed content that they come
		// from.
		pieces, err := assemble(refs, committed, c.uncommittedBlock)
		if err != nil {
			if err := c.checkBeforeList(&old); err != nil {
				return err
			}
			return err
		}
		if b.Encryption, err = c.encryption(false); err != nil {
			return err
		}
		// A blob has one encryption, and blocks may have been staged with others.
		for i := range pieces {
			if err := pieces[i].Encryption.Matches(b.Encryption); err != nil {
				return err
			}
		}
		b.Content, b.Length = record.LayOut(c.tx, pieces)
		return c.replace(&b)
	})
}

// checkBeforeList checks the preconditions, whose errors precede errors of the block list.
func (c *change) checkBeforeList(old *record.Blob) error {
	if old.Kind != 0 {
		return c.If.checkOverwrite(old, c.now)
	}
	return c.checkCreate(c.tx, c.Item, new(record.Blob), c.now)
}

// committedBlocks reads the current blob, if it exists, into old, and returns its pieces.
func (c *change) committedBlocks(old *record.Blob) (list []content.Piece, err error) {
	switch err := c.base(old); {
	case errors.Is(err, record.ErrBlobNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	case old.Kind != record.BlockBlob:
		return nil, ErrBlobType
	case old.Lake:
		return nil, ErrLake
	}
	err = old.Content.Walk(c.tx, 0, old.Length, old.Length, func(p *content.Piece) error {
		list = append(list, *p)
		list[len(list)-1].Encryption = old.Encryption
		return nil
	})
	return list, err
}

// uncommittedBlock reads an uncommitted block of the blob.
func (c *change) uncommittedBlock(id string) (p content.Piece, found bool, err error) {
	if c.blockSet == 0 {
		v := c.tx.Get(record.PendingBucket, record.PendingKey(c.Item))
		if v == nil {
			return p, false, nil
		}
		pending, err := record.DecodePending(v)
		if err != nil {
			return p, false, err
		}
		c.blockSet = pending.Set
	}
	v := c.tx.Get(record.BlocksBucket, record.BlockKey(c.blockSet, id))
	if v == nil {
		return p, false, nil
	}
	p, err = record.DecodeBlock(v)
	return p, true, err
}

// BlockLists are the blocks of a blob.
type BlockLists struct {
	// Exists is set if the blob is committed; Changed and Length belong to the blob.
	Exists  bool
	Changed ticks.Ticks
	Length  int64
	// Committed is in the order of the content, Uncommitted in the order of IDs.
	Committed, Uncommitted []Block
}

// Block is one block of a list.
type Block struct {
	ID     string // before base64
	Length int64
}

// BlockLists returns the blocks of a block blob, and the uncommitted blocks under its name.
func (s BlockBlobs) BlockLists(r *Read, committed, uncommitted bool) (list BlockLists, err error) {
	err = s.db.View(func(tx *store.Tx) error {
		it, err := r.existing(tx)
		if err != nil {
			return err
		}
		var b record.Blob
		pending := tx.Get(record.PendingBucket, record.PendingKey(it))
		switch err := r.At.Get(tx, it, r.now(), &b); {
		case err == nil:
			if err := b.Permit(r.Caller, posix.Read); err != nil {
				return err
			}
			if b.Kind != record.BlockBlob {
				return ErrBlobType
			}
			if err := r.If.checkRead(&b, r.now()); err != nil {
				return err
			}
			// It is not among the operations on archived blobs:
			// https://learn.microsoft.com/azure/storage/blobs/access-tiers-overview#archive-access-tier
			if b.Tier == record.ArchiveTier {
				return ErrArchived
			}
			list.Exists = true
			list.Changed = b.Changed
			list.Length = b.Length
		case errors.Is(err, record.ErrBlobNotFound) && pending != nil && r.At.IsBase():
		default:
			return err
		}
		if committed {
			err := b.Content.Walk(tx, 0, b.Length, b.Length, func(p *content.Piece) error {
				if p.Block != "" { // Put Blob writes content without blocks
					list.Committed = append(list.Committed, Block{p.Block, p.Length})
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
		if uncommitted && pending != nil && r.At.IsBase() {
			list.Uncommitted, err = uncommittedBlocks(tx, pending)
		}
		return err
	})
	return list, err
}

// uncommittedBlocks returns the blocks of a pending record.
func uncommittedBlocks(tx *store.Tx, pending []byte) (list []Block, err error) {
	p, err := record.DecodePending(pending)
	if err != nil {
		return nil, err
	}
	scope := record.IDPrefix(p.Set)
	cur := tx.Cursor(record.BlocksBucket)
	for k, v := cur.Seek(scope); k != nil && bytes.HasPrefix(k, scope); k, v = cur.Next() {
		_, id, err := record.ParseBlockKey(k)
		if err != nil {
			return nil, err
		}
		block, err := record.DecodeBlock(v)
		if err != nil {
			return nil, err
		}
		list = append(list, Block{id, block.Length})
	}
	return list, nil
}

// DeleteUncommitted deletes a blob that has uncommitted blocks alone. It fails with [record.ErrBlobNotFound] if there
// is no such block, or if the blob exists.
func (s BlockBlobs) DeleteUncommitted(w *Write) error {
	_, err := s.update(w, func(c *change) error {
		if err := c.enterExisting(); err != nil {
			return err
		}
		var b record.Blob
		if err := c.base(&b); !errors.Is(err, record.ErrBlobNotFound) || c.tx.Get(record.PendingBucket,
			record.PendingKey(c.Item)) == nil {
			return cmp.Or(err, record.ErrBlobNotFound)
		}
		c.discardBlocks()
		return nil
	})
	return err
}
