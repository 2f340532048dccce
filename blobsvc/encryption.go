package blobsvc

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"net/netip"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/content"
	"github.com/lazuli-storage/lazuli/blobsvc/internal/encryption"
	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// errContainerScope: a request names a scope where the container has its own and permits no other.
var errContainerScope = fail(http.StatusForbidden, "RequestForbiddenByContainerEncryptionPolicy", "The request is forbidden by the container encryption policy.")

// readKeys reads x-ms-encryption-* and x-ms-source-encryption-*. Azure takes keys over https alone; here also from the same
// machine, where nobody listens.
// https://learn.microsoft.com/azure/storage/blobs/encryption-customer-provided-keys
func (c *call) readKeys() (err error) {
	if c.key, err = c.readKey("X-Ms-Encryption-", "x-ms-encryption-"); err != nil {
		return err
	}
	if c.key != nil && c.HasHeader("X-Ms-Encryption-Scope") {
		return wire.InvalidHeader("x-ms-encryption-scope", c.Header("X-Ms-Encryption-Scope"))
	}
	c.sourceKey, err = c.readKey("X-Ms-Source-Encryption-", "x-ms-source-encryption-")
	return err
}

// readKey reads one key with its hash and algorithm: all three or none.
func (c *call) readKey(canonical, prefix string) (*encryption.CustomerKey, error) {
	present := 0
	for _, name := range [...]string{"Key", "Key-Sha256", "Algorithm"} {
		if c.HasHeader(canonical + name) {
			present++
		}
	}
	if present == 0 {
		return nil, nil
	}
	for _, name := range [...]string{"Key", "Key-Sha256", "Algorithm"} {
		if !c.HasHeader(canonical + name) {
			return nil, wire.MissingHeader(prefix + map[string]string{"Key": "key", "Key-Sha256": "key-sha256", "Algorithm": "algorithm"}[name])
		}
	}
	if s := c.Header(canonical + "Algorithm"); s != "AES256" {
		return nil, wire.InvalidHeader(prefix+"algorithm", s)
	}
	if c.HTTP.TLS == nil && !local(c.HTTP.RemoteAddr) {
		return nil, wire.InvalidHeader(prefix+"key", "").WithMessage("A customer-provided key must be sent over https.")
	}
	key, err := base64.StdEncoding.DecodeString(c.Header(canonical + "Key"))
	if err != nil || len(key) != 32 {
		return nil, wire.InvalidHeader(prefix+"key", "") // the value is for nobody to see
	}
	sum := sha256.Sum256(key)
	if s := c.Header(canonical + "Key-Sha256"); s != base64.StdEncoding.EncodeToString(sum[:]) {
		return nil, wire.InvalidHeader(prefix+"key-sha256", s)
	}
	return &encryption.CustomerKey{Key: key, SHA256: string(sum[:])}, nil
}

// local reports whether a request came from this machine or this process.
func local(remote string) bool {
	addr, err := netip.ParseAddrPort(remote)
	return err != nil || addr.Addr().Unmap().IsLoopback()
}

// unlock makes sure that the holder of key, nil for none, may read and change the content of b, a blob of the account, and lets it be
// opened.
func (s *Service) unlock(account string, b *Blob, key *encryption.CustomerKey) (err error) {
	b.opened, err = s.scopes.Unlock(account, b.Encryption, key)
	return err
}

// wantedScope is the scope that the request itself names: in a header, or in its token. named is false if it names none.
func (c *call) wantedScope() (scope string, named bool, err error) {
	header := c.Header("X-Ms-Encryption-Scope")
	if t := c.identity.Token(); t != nil && t.Scope != "" {
		if header != "" && header != t.Scope {
			return "", false, auth.ErrAuthorizationFailure
		}
		header = t.Scope
	}
	if header == encryption.AccountScope {
		return "", true, nil
	}
	return header, header != "", nil
}

// onExisting reports whether the call adds content to a blob that is there.
func (c *call) onExisting() bool { return c.Comp == "page" || c.Comp == "appendblock" }

// encryptionFor decides how content that the call writes is encrypted: with the key or scope that it names, as the blob
// that it adds to, or with the container's default scope.
func (s *Service) encryptionFor(tx *store.Tx, c *call) (by encryption.ID, err error) {
	defer func() { c.under = by }()
	if s.plain(c) && !c.onExisting() {
		return by, nil
	}
	scope, named, err := c.wantedScope()
	if err != nil {
		return by, err
	}
	rec, err := getContainer(tx, c.Account, c.container)
	if err != nil {
		return by, err
	}
	if rec.OnlyScope && (c.key != nil || named && scope != rec.Scope) {
		return by, errContainerScope
	}
	if c.key != nil {
		return encryption.ID{KeySHA256: c.key.SHA256}, nil
	}
	if !named {
		scope = rec.Scope
		if c.onExisting() {
			var b Blob
			switch err := getBlob(tx, rec.generation, c.blob, baseSlot, &b); {
			case err == nil && b.Encryption.KeySHA256 != "":
				return by, encryption.ErrKeyMissing
			case err == nil:
				scope = b.Encryption.Scope
			case err != errBlobNotFound: // the transaction that follows says so
				return by, err
			}
		}
	}
	if scope != "" {
		if _, err := s.scopes.Cipher(c.Account, scope); err != nil {
			return by, err
		}
	}
	return encryption.ID{Scope: scope}, nil
}

// mayAdd makes sure that the caller may add up, nil for no content, to b.
func (s *Service) mayAdd(c *call, b *Blob, up *content.Upload) error {
	c.under = b.Encryption
	if err := s.unlock(c.Account, b, c.key); err != nil || up == nil {
		return err
	}
	return b.Encryption.Matches(up.Encryption())
}

// errOtherEncryption: a copy cannot share the bytes of its source, which are encrypted in another way. It is never answered.
var errOtherEncryption = errors.New("blobsvc: the copy is encrypted in another way than its source")

// sameEncryption decides how a copy b of from is encrypted, and fails with errOtherEncryption if that is not how from is. Scopes of
// two accounts are two, whatever their names.
func (s *Service) sameEncryption(tx *store.Tx, c *call, src *copySource, b, from *Blob) (err error) {
	if from.Encryption.KeySHA256 != "" {
		return errSource{encryption.ErrKeyMissing}
	}
	if b.Encryption, err = s.encryptionFor(tx, c); err != nil {
		return err
	}
	if b.Encryption == from.Encryption && (from.Encryption.Scope == "" || src.account == c.Account) {
		return nil
	}
	if from.Kind != BlockBlob {
		return wire.ErrNotImplemented.WithMessage("Copies of page and append blobs to another encryption scope are not implemented.")
	}
	return errOtherEncryption
}

// noKeys refuses customer-provided keys where Azure takes none.
func (c *call) noKeys() error {
	switch {
	case c.key != nil:
		return wire.ErrUnsupportedHeader.With("HeaderName", "x-ms-encryption-key")
	case c.sourceKey != nil:
		return wire.ErrUnsupportedHeader.With("HeaderName", "x-ms-source-encryption-key")
	}
	return nil
}

// plain reports whether nothing that the call writes can be encrypted: the common case, decided without a look at the
// database.
func (s *Service) plain(c *call) bool {
	if c.key != nil || !s.scopes.Unused(c.Account) || c.HasHeader("X-Ms-Encryption-Scope") {
		return false
	}
	t := c.identity.Token()
	return t == nil || t.Scope == ""
}

// sealerFor returns what encrypts the content of a call; nil if it is not to be encrypted.
func (s *Service) sealerFor(c *call) (*encryption.Sealer, error) {
	if s.plain(c) {
		return nil, nil
	}
	var by encryption.ID
	err := s.db.View(func(tx *store.Tx) (err error) {
		by, err = s.encryptionFor(tx, c)
		return err
	})
	if err != nil {
		return nil, err
	}
	return s.scopes.NewSealer(c.Account, by, c.key)
}

// sendEncrypted says that what was written is encrypted at rest, which Azure says of every write, and with what.
func (c *call) sendEncrypted() {
	c.Set("x-ms-request-server-encrypted", "true")
	c.sendEncryption(c.under)
}

// sendEncryption sets the headers that tell of a customer's key or a scope.
func (c *call) sendEncryption(by encryption.ID) {
	if by.KeySHA256 != "" {
		c.Set("x-ms-encryption-key-sha256", base64.StdEncoding.EncodeToString([]byte(by.KeySHA256)))
	}
	if by.Scope != "" {
		c.Set("x-ms-encryption-scope", by.Scope)
	}
}
