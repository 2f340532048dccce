package endpoint

import (
	"crypto/sha256"
	"encoding/base64"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/exposure"
	state "github.com/lazuli-storage/lazuli/internal/state/blob"
	"github.com/lazuli-storage/lazuli/internal/state/blob/encryption"
)

// readKeys reads x-ms-encryption-* and x-ms-source-encryption-*. Azure accepts keys only over https. Here plain HTTP is
// accepted as well from the same machine.
// https://learn.microsoft.com/azure/storage/blobs/encryption-customer-provided-keys
func (c *Call) readKeys() (err error) {
	if c.Key, err = c.readKey("X-Ms-Encryption-", "x-ms-encryption-"); err != nil {
		return err
	}
	if c.Key != nil && c.HasHeader("X-Ms-Encryption-Scope") {
		return wire.InvalidHeader("x-ms-encryption-scope", c.Header("X-Ms-Encryption-Scope"))
	}
	c.SourceKey, err = c.readKey("X-Ms-Source-Encryption-", "x-ms-source-encryption-")
	return err
}

// readKey reads one key with its hash and algorithm: all three or none. The algorithm alone means nothing: some clients
// send it with every request.
func (c *Call) readKey(canonical, prefix string) (*encryption.CustomerKey, error) {
	present := 0
	for _, name := range [...]string{"Key", "Key-Sha256", "Algorithm"} {
		if c.HasHeader(canonical + name) {
			present++
		}
	}
	algorithm, err := c.Headers().Word(canonical+"Algorithm", "AES256")
	if err != nil {
		return nil, err
	}
	if present == 0 || present == 1 && algorithm != "" {
		return nil, nil
	}
	for _, name := range [...]string{"Key", "Key-Sha256", "Algorithm"} {
		if c.Header(canonical+name) == "" {
			return nil, wire.MissingHeader(prefix +
				map[string]string{"Key": "key", "Key-Sha256": "key-sha256", "Algorithm": "algorithm"}[name])
		}
	}
	if c.HTTP.TLS == nil && !exposure.LocalCaller(c.HTTP.RemoteAddr) {
		return nil, wire.InvalidHeader(prefix+"key", "").WithMessage("A customer-provided key must be sent over https.")
	}
	key, err := base64.StdEncoding.DecodeString(c.Header(canonical + "Key"))
	if err != nil || len(key) != 32 {
		return nil, wire.InvalidHeader(prefix+"key", "") // the value is secret
	}
	sum := sha256.Sum256(key)
	if s := c.Header(canonical + "Key-Sha256"); s != base64.StdEncoding.EncodeToString(sum[:]) {
		return nil, wire.InvalidHeader(prefix+"key-sha256", s)
	}
	return &encryption.CustomerKey{Key: key, SHA256: string(sum[:])}, nil
}

// NoKeys refuses customer-provided keys where Azure takes none.
func (c *Call) NoKeys() error {
	switch {
	case c.Key != nil:
		return wire.ErrUnsupportedHeader.With("HeaderName", "x-ms-encryption-key")
	case c.SourceKey != nil:
		return wire.ErrUnsupportedHeader.With("HeaderName", "x-ms-source-encryption-key")
	}
	return nil
}

// SendEncrypted sets the header that says that written content is encrypted at rest, which Azure says of every write,
// and the key.
func (c *Call) SendEncrypted(id encryption.ID) {
	c.Set("x-ms-request-server-encrypted", "true")
	c.SendEncryption(id)
}

// SendEncryption sets the headers that name a customer's key or a scope.
func (c *Call) SendEncryption(by encryption.ID) {
	if by.KeySHA256 != "" {
		c.Set("x-ms-encryption-key-sha256", base64.StdEncoding.EncodeToString([]byte(by.KeySHA256)))
	}
	if by.Scope != "" {
		c.Set("x-ms-encryption-scope", by.Scope)
	}
}

// EncryptionScope reads the encryption scope that a request names: in a header, or in the token of its caller.
func EncryptionScope(h wire.Headers, by auth.Identity, q *state.EncryptionRequest) error {
	scope := h.Get("X-Ms-Encryption-Scope")
	if t := by.Token(); t != nil && t.Scope != "" {
		if scope != "" && scope != t.Scope {
			return auth.ErrAuthorizationFailure
		}
		scope = t.Scope
	}
	if q.Named = scope != ""; scope != encryption.AccountScope {
		q.Scope = scope
	}
	return nil
}
