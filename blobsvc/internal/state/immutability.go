package state

import (
	"bytes"

	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// Protection keeps a blob from being changed or deleted: an immutability policy, a legal hold, or both.
// https://learn.microsoft.com/azure/storage/blobs/immutable-version-level-worm-policies
type Protection struct {
	// Until is the end of the immutability policy in whole seconds, 0 without one. A locked policy can only be prolonged.
	Until  ticks.Ticks
	Locked bool
	Hold   bool
}

// checkDeletable returns an error if a policy or legal hold forbids deletion.
func (p *Protection) checkDeletable(now ticks.Ticks) error {
	switch {
	case p.Hold:
		return ErrLegalHold
	case now < p.Until:
		return ErrImmutable
	}
	return nil
}

// checkChangeable returns an error if a policy or legal hold forbids changes in place. A policy forbids them even after
// its expiry.
func (p *Protection) checkChangeable() error {
	switch {
	case p.Hold:
		return ErrLegalHold
	case p.Until != 0:
		return ErrImmutable
	}
	return nil
}

// Mode is the value of x-ms-immutability-policy-mode.
func (p *Protection) Mode() string {
	switch {
	case p.Until == 0:
		return ""
	case p.Locked:
		return "locked"
	}
	return "unlocked"
}

// checkProtectable checks that the blobs of the container can have policies and holds.
func (c *change) checkProtectable() error {
	rec, err := getContainer(c.tx, c.Account, c.Container)
	if err == nil && !rec.Immutable {
		err = ErrNotImmutable
	}
	return err
}

// Immutability has the operations on immutability policies and legal holds.
type Immutability struct{ *core }

// protect changes the protection of a blob, snapshot or version. The entity tag stays, and no lease is needed.
func (s Immutability) protect(w *Write, set func(p *Protection) error) (out Protection, err error) {
	_, err = s.updateBlob(w, (*Preconditions).checkLeasing, func(c *change, b *Blob) error {
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
func (s Immutability) SetPolicy(w *Write, policy Protection, unlock bool) (Protection, error) {
	return s.protect(w, func(p *Protection) error {
		if !p.Locked {
			p.Until, p.Locked = policy.Until, policy.Locked
			return nil
		}
		if unlock || policy.Until < p.Until {
			return ErrImmutable
		}
		p.Until = policy.Until
		return nil
	})
}

// DeletePolicy removes an immutability policy that is not locked.
func (s Immutability) DeletePolicy(w *Write) error {
	_, err := s.protect(w, func(p *Protection) error {
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
	_, err := s.protect(w, func(p *Protection) error {
		p.Hold = hold
		return nil
	})
	return err
}

// checkEmpty checks that a container has no blobs but soft-deleted and expired ones.
func checkEmpty(tx *store.Tx, gen generation, now ticks.Ticks) error {
	scope := gen.prefix()
	cur := tx.Cursor(blobsBucket)
	var b Blob
	for k, v := cur.Seek(scope); k != nil && bytes.HasPrefix(k, scope); k, v = cur.Next() {
		_, _, slot, err := splitBlobKey(k)
		if err != nil {
			return err
		}
		if err := decodeBlobHead(v, &b); err != nil {
			return err
		}
		if b.slot = slot; b.Deleted == 0 && !b.expired(now) {
			return ErrContainerNotEmpty
		}
	}
	return nil
}
