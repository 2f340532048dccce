package blob

import (
	"errors"

	"github.com/lazuli-storage/lazuli/internal/state/blob/content"
	"github.com/lazuli-storage/lazuli/internal/state/blob/encryption"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// Sealer returns what encrypts the content that w writes; nil if it is not to be encrypted. existing is set if w adds
// content to a blob that exists, whose encryption the content has then.
func (s Blobs) Sealer(w *Write, existing bool) (*encryption.Sealer, error) {
	if s.unencrypted(w) {
		return nil, nil
	}
	var id encryption.ID
	err := s.db.View(func(tx *store.Tx) (err error) {
		c := change{Write: w, s: s.core, tx: tx, now: ticks.Of(w.Now)}
		id, err = c.encryption(existing)
		return err
	})
	if err != nil {
		return nil, err
	}
	return s.scopes.NewSealer(w.Account, id, w.Encryption.Key)
}

// unencrypted reports whether nothing that w writes can be encrypted: the common case, decided without reading the
// database.
func (s *core) unencrypted(w *Write) bool {
	return w.Encryption.Key == nil && !w.Encryption.Named && s.scopes.Unused(w.Account)
}

// encryption decides how content that c writes is encrypted: with the key or scope that the request names, as the blob
// is that it adds to, or with the container's default scope.
func (c *change) encryption(existing bool) (id encryption.ID, err error) {
	q := &c.Write.Encryption
	if c.s.unencrypted(c.Write) && !existing {
		return id, nil
	}
	rec, err := record.GetContainer(c.tx, c.Account, c.Container)
	if err != nil {
		return id, err
	}
	if rec.OnlyScope && (q.Key != nil || q.Named && q.Scope != rec.Scope) {
		return id, ErrContainerScope
	}
	if q.Key != nil {
		return encryption.ID{KeySHA256: q.Key.SHA256}, nil
	}
	scope := q.Scope
	if !q.Named {
		if scope, err = c.impliedScope(&rec, existing); err != nil {
			return id, err
		}
	}
	if scope != "" {
		if _, err := c.s.scopes.Cipher(c.Account, scope); err != nil {
			return id, err
		}
	}
	return encryption.ID{Scope: scope}, nil
}

// impliedScope is the scope of content for which the request names none.
func (c *change) impliedScope(rec *record.Container, existing bool) (string, error) {
	if !existing {
		return rec.Scope, nil
	}
	var b record.Blob
	it, err := c.existing(c.tx)
	if err == nil {
		err = record.GetBlob(c.tx, it, record.BaseSlot, c.now, &b)
	}
	switch {
	case err == nil && b.Encryption.KeySHA256 != "":
		return "", encryption.ErrKeyMissing
	case err == nil:
		return b.Encryption.Scope, nil
	case errors.Is(err, record.ErrBlobNotFound): // the transaction that follows reports it
		return rec.Scope, nil
	default:
		return "", err
	}
}

// unlock checks that the caller may read and change the content of b.
func (c *change) unlock(b *record.Blob) error {
	return c.s.unlock(c.Account, b, c.Write.Encryption.Key)
}

// unlockFor checks that the caller may add uploaded content, nil for none, to b.
func (c *change) unlockFor(b *record.Blob, up *content.Upload) error {
	c.result.Encryption = b.Encryption
	if err := c.unlock(b); err != nil {
		return err
	}
	if up == nil {
		return c.checkScope(b, false)
	}
	return b.Encryption.Matches(up.Encryption())
}

// checkScope checks the scope of a request that writes nothing into the content of b. A scope that is named must be the
// blob's. Set Blob Metadata and Snapshot Blob have to name the scope of a blob (recorded), unless it is the container's
// default.
func (c *change) checkScope(b *record.Blob, required bool) error {
	q := &c.Encryption
	switch {
	case q.Key != nil || b.Encryption.KeySHA256 != "": // a matter of keys
		return nil
	case q.Named && q.Scope != b.Encryption.Scope:
		if q.Scope != "" {
			if _, err := c.s.scopes.Cipher(c.Account, q.Scope); err != nil { // an unknown scope comes first (recorded)
				return err
			}
		}
		return encryption.ErrScopeMismatch
	case q.Named || !required || b.Encryption.Scope == "":
		return nil
	}
	rec, err := record.GetContainer(c.tx, c.Account, c.Container)
	if err == nil && rec.Scope != b.Encryption.Scope {
		err = encryption.ErrKeyMissing
	}
	return err
}

// unlock checks that the holder of key, nil for none, may read and change the content of b, and lets it be opened.
func (s *core) unlock(account string, b *record.Blob, key *encryption.CustomerKey) (err error) {
	b.Cipher, err = s.scopes.Unlock(account, b.Encryption, key)
	return err
}
