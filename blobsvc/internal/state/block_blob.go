package state

import (
	"bytes"
	"cmp"
	"errors"
	"time"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/content"
	"github.com/lazuli-storage/lazuli/blobsvc/internal/posix"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// Limits of block blobs.
// https://learn.microsoft.com/rest/api/storageservices/understanding-block-blobs--append-blobs--and-page-blobs
const (
	// MaxCommittedBlocks is the number of blocks in a block list.
	MaxCommittedBlocks = 50_000
	// maxUncommittedBlocks is the number of uncommitted blocks of one blob.
	maxUncommittedBlocks = 100_000
)

// BlockBlobs has the operations on the blocks of block blobs, committed and uncommitted.
type BlockBlobs struct{ *core }

// CheckBlock reports early whether a block is worth receiving: it fails as StageBlock would. Of the preconditions, the
// lease alone counts.
func (s BlockBlobs) CheckBlock(w *Write) error {
	return s.db.View(func(tx *store.Tx) error {
		p, err := w.find(tx)
		if err != nil {
			return err
		}
		return w.checkBlockTarget(tx, p.item, ticks.Of(w.Now))
	})
}

// checkBlockTarget checks the blob for which a block is staged: it does not exist, or it is a block blob that the
// caller may overwrite and whose lease the caller holds.
func (w *Write) checkBlockTarget(tx *store.Tx, it item, now ticks.Ticks) error {
	var b Blob
	switch err := getBlob(tx, it, baseSlot, now, &b); {
	case err == nil:
		if !w.Rights.Overwrite {
			return ErrOverwriteForbidden
		}
		if b.Kind != BlockBlob {
			return ErrBlobType
		}
		if b.IsDirectory() {
			return ErrPathConflict
		}
		if err := b.permit(w.Caller, posix.Write); err != nil {
			return err
		}
		if b.Lake {
			return ErrLake
		}
		return b.Lease.checkWrite(w.If.LeaseID, now, &blobLeaseErrors)
	case errors.Is(err, ErrBlobNotFound):
		lease, err := uncommittedLease(tx, it)
		if err != nil {
			return err
		}
		return lease.checkWrite(w.If.LeaseID, now, &blobLeaseErrors)
	default:
		return err
	}
}

// uncommittedLease returns the lease of a blob that does not exist but for uncommitted blocks.
func uncommittedLease(tx *store.Tx, it item) (Lease, error) {
	v := tx.Get(pendingBucket, pendingKey(it))
	if v == nil {
		return Lease{}, nil
	}
	p, err := decodePending(v)
	return p.lease, err
}

// checkCreate checks the preconditions of a write of a blob that does not exist, and gives b the lease that its
// uncommitted blocks have.
func (w *Write) checkCreate(tx *store.Tx, it item, b *Blob, now ticks.Ticks) error {
	lease, err := uncommittedLease(tx, it)
	if err != nil || lease == (Lease{}) {
		return cmp.Or(err, w.If.checkCreate())
	}
	if err := lease.checkWrite(w.If.LeaseID, now, &blobLeaseErrors); err != nil {
		return err
	}
	// The lease was checked against that of the blocks; the check for a blob that does not exist would refuse any lease
	// ID.
	unleased := w.If
	unleased.LeaseID = ""
	b.Lease = lease.afterWrite(now)
	return unleased.checkCreate()
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
		if err := c.checkBlockTarget(c.tx, c.item, c.now); err != nil {
			return err
		}
		if c.inTree() {
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
	key := pendingKey(c.item)
	p := pendingRecord{idLength: len(id), parent: c.parent, name: c.name}
	if v := c.tx.Get(pendingBucket, key); v != nil {
		var err error
		if p, err = decodePending(v); err != nil {
			return err
		}
	} else {
		p.set = nextID(c.tx)
	}
	// All IDs of the uncommitted blocks of a blob have one length. The first block sets it.
	if p.idLength != len(id) {
		return ErrBlockID
	}
	block := blockKey(p.set, id)
	// A block that is staged twice replaces the earlier one and does not count again.
	if c.tx.Get(blocksBucket, block) == nil {
		if p.count >= maxUncommittedBlocks {
			return ErrTooManyBlocks
		}
		p.count++
	}
	p.last = c.now
	c.tx.Put(pendingBucket, key, p.encode())
	c.tx.Put(blocksBucket, block, encodeBlock(up.Pieces(c.tx)[0]))
	return nil
}

// PutBlockList makes the blocks that refs name the content of blob, and writes it as Blobs.Put does.
func (s BlockBlobs) PutBlockList(w *Write, blob *Blob, refs []BlockRef) (Result, error) {
	return s.update(w, func(c *change) error {
		b := *blob
		if err := c.enter(); err != nil {
			return err
		}
		if err := c.expireDue(); err != nil {
			return err
		}
		var old Blob
		committed, err := c.committedBlocks(&old)
		if err != nil {
			return err
		}
		if old.Kind == 0 && c.If.IfModifiedSince.After(c.Now) && c.tx.Get(pendingBucket, pendingKey(c.item)) != nil {
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
		b.content, b.Length = layOut(c.tx, pieces)
		return c.replace(&b)
	})
}

// checkBeforeList checks the preconditions, whose errors precede errors of the block list.
func (c *change) checkBeforeList(old *Blob) error {
	if old.Kind != 0 {
		return c.If.checkOverwrite(old, c.now)
	}
	return c.checkCreate(c.tx, c.item, new(Blob), c.now)
}

// committedBlocks reads the current blob, if it exists, into old, and returns its pieces.
func (c *change) committedBlocks(old *Blob) (list []content.Piece, err error) {
	switch err := c.base(old); {
	case errors.Is(err, ErrBlobNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	case old.Kind != BlockBlob:
		return nil, ErrBlobType
	case old.Lake:
		return nil, ErrLake
	}
	err = old.content.walk(c.tx, 0, old.Length, old.Length, func(p *content.Piece) error {
		list = append(list, *p)
		list[len(list)-1].Encryption = old.Encryption
		return nil
	})
	return list, err
}

// uncommittedBlock reads an uncommitted block of the blob.
func (c *change) uncommittedBlock(id string) (p content.Piece, found bool, err error) {
	if c.blockSet == 0 {
		v := c.tx.Get(pendingBucket, pendingKey(c.item))
		if v == nil {
			return p, false, nil
		}
		pending, err := decodePending(v)
		if err != nil {
			return p, false, err
		}
		c.blockSet = pending.set
	}
	v := c.tx.Get(blocksBucket, blockKey(c.blockSet, id))
	if v == nil {
		return p, false, nil
	}
	p, err = decodeBlock(v)
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
		var b Blob
		pending := tx.Get(pendingBucket, pendingKey(it))
		switch err := r.At.get(tx, it, r.now(), &b); {
		case err == nil:
			if err := b.permit(r.Caller, posix.Read); err != nil {
				return err
			}
			if b.Kind != BlockBlob {
				return ErrBlobType
			}
			if err := r.If.checkRead(&b, r.now()); err != nil {
				return err
			}
			list.Exists, list.Changed, list.Length = true, b.Changed, b.Length
		case errors.Is(err, ErrBlobNotFound) && pending != nil && r.At.IsBase():
		default:
			return err
		}
		if committed {
			err := b.content.walk(tx, 0, b.Length, b.Length, func(p *content.Piece) error {
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
	p, err := decodePending(pending)
	if err != nil {
		return nil, err
	}
	scope := setPrefix(p.set)
	cur := tx.Cursor(blocksBucket)
	for k, v := cur.Seek(scope); k != nil && bytes.HasPrefix(k, scope); k, v = cur.Next() {
		_, id, err := parseBlockKey(k)
		if err != nil {
			return nil, err
		}
		block, err := decodeBlock(v)
		if err != nil {
			return nil, err
		}
		list = append(list, Block{id, block.Length})
	}
	return list, nil
}

const (
	// discardAtOnce is up to how many uncommitted blocks are removed in the transaction that commits or discards them;
	// more are left to the background.
	discardAtOnce = 64
	// blockLifetime is the time for which uncommitted blocks are kept after the last of them was staged.
	// https://learn.microsoft.com/rest/api/storageservices/put-block#remarks
	blockLifetime = 7 * 24 * time.Hour
)

// DeleteUncommitted deletes a blob that has uncommitted blocks alone. It fails with [ErrBlobNotFound] if there is no
// such block, or if the blob exists.
func (s BlockBlobs) DeleteUncommitted(w *Write) error {
	_, err := s.update(w, func(c *change) error {
		if err := c.enterExisting(); err != nil {
			return err
		}
		var b Blob
		if err := c.base(&b); !errors.Is(err, ErrBlobNotFound) || c.tx.Get(pendingBucket, pendingKey(c.item)) == nil {
			return cmp.Or(err, ErrBlobNotFound)
		}
		c.discardBlocks()
		return nil
	})
	return err
}

// discardBlocks drops the uncommitted blocks of the blob.
func (c *change) discardBlocks() {
	key := pendingKey(c.item)
	v := c.tx.Get(pendingBucket, key)
	if v == nil {
		return
	}
	c.tx.Delete(pendingBucket, key)
	if p, err := decodePending(v); err == nil {
		dropBlockSet(c.tx, p)
	}
}

// dropBlockSet removes the blocks of a set.
func dropBlockSet(tx *store.Tx, p pendingRecord) {
	// The record that named the set is removed in this transaction or names another set, so that nothing finds the
	// blocks while they wait for the background.
	if p.count > discardAtOnce {
		tx.Put(garbageBucket, garbageKey(garbageBlocks, p.set), []byte{recordVersion})
		return
	}
	scope := setPrefix(p.set)
	var keys [][]byte
	cur := tx.Cursor(blocksBucket)
	for k, _ := cur.Seek(scope); k != nil && bytes.HasPrefix(k, scope); k, _ = cur.Next() {
		keys = append(keys, bytes.Clone(k))
	}
	for _, k := range keys {
		tx.Delete(blocksBucket, k)
	}
}
