// Package encryption encrypts the content of blobs with customer-provided keys and with the keys of encryption scopes.
//
// # Concepts
//
// [ID] identifies the key that encrypts stored content; blob records have it. A [CustomerKey] comes with each request
// and is never stored. The keys of encryption scopes are in a [Scopes], whose file holds them. [Sealer] encrypts one
// upload, [Opener] decrypts what is read, and [Seal] is what a record stores for each piece of content so that any
// range of it can be decrypted (stream.go).
//
// Content is encrypted, nothing else: names, properties, metadata and tags are not.
//
// # What it is not
//
// It reads no requests and decides no policy: which key a write uses is decided by package state, from values.
package encryption

import (
	"crypto/cipher"
	"errors"
)

// ID identifies the key that encrypts stored content: a customer-provided key, the key of an encryption scope, or none,
// which is the zero value. A blob and all of its pieces have one ID.
type ID struct {
	// KeySHA256 is the SHA-256 of a customer-provided key: 32 bytes, or "".
	KeySHA256 string
	// Scope is the name of an encryption scope, or "".
	Scope string
}

// AccountScope is the name of the scope of the account's own key. Content in it is not encrypted here.
const AccountScope = "$account-encryption-key"

// ScopeName is the name of the scope as responses have it.
func (id ID) ScopeName() string {
	if id.Scope == "" {
		return AccountScope
	}
	return id.Scope
}

// CustomerKey is a customer-provided key.
type CustomerKey struct {
	Key    []byte // 32 bytes
	SHA256 string // of Key
}

// Errors of requests whose key does not fit the stored content.
var (
	// ErrKeyMissing: the blob is encrypted with a customer-provided key, or in a scope, and the request names none.
	ErrKeyMissing = errors.New("encryption: the blob needs a customer-provided key")
	// ErrKeyUnused: the request has a customer-provided key, and the blob is not encrypted with one.
	ErrKeyUnused = errors.New("encryption: the blob has no customer-provided key")
	// ErrKeyMismatch: the blob is encrypted with another customer-provided key.
	ErrKeyMismatch = errors.New("encryption: the blob has another customer-provided key")
	// ErrScopeMismatch: the blob is in another encryption scope.
	ErrScopeMismatch = errors.New("encryption: the blob is in another scope")
)

// Errors of encryption scopes.
var (
	// ErrScopeNotFound: the account has no scope of that name and never had one.
	ErrScopeNotFound = errors.New("encryption: no such scope")
	// ErrScopeDisabled: the account has the scope no longer. Blobs in it are kept and cannot be read.
	ErrScopeDisabled = errors.New("encryption: the scope is disabled")
)

// Matches checks that content with id is encrypted as a request asks for. It fails with one of the errors above.
func (id ID) Matches(asked ID) error {
	switch {
	case id == asked:
		return nil
	case asked == ID{}:
		return ErrKeyMissing
	case id.KeySHA256 == "" && (id.Scope != "" || asked.KeySHA256 == ""):
		return ErrScopeMismatch
	case id.KeySHA256 == "":
		return ErrKeyUnused
	case asked.KeySHA256 == "":
		return ErrKeyMissing // its scope is not looked at
	}
	return ErrKeyMismatch
}

// Unlock checks that key, which may be nil, decrypts content with id in an account, and returns the cipher; nil if the
// content is not encrypted.
func (s *Scopes) Unlock(account string, id ID, key *CustomerKey) (cipher.Block, error) {
	switch {
	case id.Scope != "" && key != nil:
		return nil, ErrScopeMismatch
	case id.KeySHA256 == "" && key != nil:
		return nil, ErrKeyUnused
	case id.KeySHA256 != "" && key == nil:
		return nil, ErrKeyMissing
	case id.KeySHA256 != "" && id.KeySHA256 != key.SHA256:
		return nil, ErrKeyMismatch
	}
	return s.cipherOf(account, id, key)
}

// cipherOf returns the cipher of an ID in an account; nil for none.
func (s *Scopes) cipherOf(account string, id ID, key *CustomerKey) (cipher.Block, error) {
	switch {
	case id.KeySHA256 != "":
		if key == nil || key.SHA256 != id.KeySHA256 {
			return nil, ErrKeyMissing
		}
		return contentCipher(key.Key)
	case id.Scope != "":
		return s.Cipher(account, id.Scope)
	}
	return nil, nil
}
