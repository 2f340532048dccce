package blob

import (
	"bytes"

	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// protect changes the protection of a blob, snapshot or version. The entity tag stays, and no lease is needed.
func (s Immutability) protect(w *Write, set func(p *record.Protection) error) (out record.Protection, err error) {
	_, err = s.updateBlob(w, (*Preconditions).checkLeasing, func(c *change, b *record.Blob) error {
		if err := c.checkProtectable(); err != nil {
			return err
		}
		if err := set(&b.Protection); err != nil {
			return err
		}
		out = b.Protection
		c.put(b)
		return nil
	})
	return out, err
}

// SetPolicy sets the end of an immutability policy, and locks it if policy.Locked. A locked policy can only be
// prolonged; unlock is set if the request demands an unlocked one.
func (s Immutability) SetPolicy(w *Write, policy record.Protection, unlock bool) (record.Protection, error) {
	return s.protect(w, func(p *record.Protection) error {
		if !p.Locked {
			p.Until = policy.Until
			p.Locked = policy.Locked
			return nil
		}
		if unlock || policy.Until < p.Until {
			return record.ErrImmutable
		}
		p.Until = policy.Until
		return nil
	})
}

// DeletePolicy removes an immutability policy that is not locked.
func (s Immutability) DeletePolicy(w *Write) error {
	_, err := s.protect(w, func(p *record.Protection) error {
		if p.Locked {
			return ErrPolicyLocked
		}
		p.Until = 0
		return nil
	})
	return err
}

// SetHold sets or clears a legal hold.
func (s Immutability) SetHold(w *Write, hold bool) error {
	_, err := s.protect(w, func(p *record.Protection) error {
		p.Hold = hold
		return nil
	})
	return err
}

// checkEmpty checks that a container has no blobs but soft-deleted and expired ones.
func checkEmpty(tx *store.Tx, gen record.Generation, now ticks.Ticks) error {
	scope := gen.Prefix()
	cur := tx.Cursor(record.BlobsBucket)
	var b record.Blob
	for k, v := cur.Seek(scope); k != nil && bytes.HasPrefix(k, scope); k, v = cur.Next() {
		_, _, slot, err := record.SplitBlobKey(k)
		if err != nil {
			return err
		}
		if err := record.DecodeBlobHead(v, &b); err != nil {
			return err
		}
		if b.Slot = slot; b.Deleted == 0 && !b.Expired(now) {
			return ErrContainerNotEmpty
		}
	}
	return nil
}
