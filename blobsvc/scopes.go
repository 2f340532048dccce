package blobsvc

import (
	"crypto/cipher"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/storage/secretfile"
)

// scopes are the keys of encryption scopes. In Azure the account's management makes scopes; here they are a setting of the account
// (see [management.Blob]). A scope gets a random key of its own when it is first declared, other than that of another account's scope
// of the same name. The keys of all that ever were stay in one file; a scope that is not declared any more is disabled: its blobs are
// there and cannot be read until it is declared again.
// https://learn.microsoft.com/azure/storage/blobs/encryption-scope-overview
type scopes struct {
	path string // "" for keys that last as long as the process

	mu sync.RWMutex // guards what follows
	// keys are 32 bytes each, as the file has them, under "account/scope". A name alone is a key of earlier versions, whose scopes
	// were those of all accounts: it stays the key of each account's scope of that name.
	keys map[string][]byte
	// ciphers are made of keys when they are first used.
	ciphers map[string]cipher.Block
}

const (
	// maxScopeFile bounds the file of keys in bytes.
	maxScopeFile = 16 << 20
	scopeKeySize = 32
)

// openScopes reads the keys at path, if there are any.
func openScopes(path string) (*scopes, error) {
	s := &scopes{path: path, keys: map[string][]byte{}, ciphers: map[string]cipher.Block{}}
	if path == "" {
		return s, nil
	}
	b, err := secretfile.Read(path, maxScopeFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return s, nil
	case err != nil:
		return nil, err
	}
	if err := json.Unmarshal(b, &s.keys); err != nil { // keys are in base64
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for _, id := range slices.Sorted(maps.Keys(s.keys)) {
		if n := len(s.keys[id]); n != scopeKeySize {
			return nil, fmt.Errorf("%s: the key of %s has %d bytes, not %d", path, id, n, scopeKeySize)
		}
	}
	return s, nil
}

// idOf is under which name the key of an account's scope is, or would be. The caller holds mu.
func (s *scopes) idOf(account, name string) string {
	if id := account + "/" + name; s.keys[id] != nil || s.keys[name] == nil {
		return id
	}
	return name
}

// declare makes keys for the account's scopes that have none, and makes them durable.
func (s *scopes) declare(account string, names []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	keys := maps.Clone(s.keys)
	for _, name := range names {
		if id := s.idOf(account, name); keys[id] == nil {
			keys[id] = make([]byte, scopeKeySize)
			if _, err := rand.Read(keys[id]); err != nil {
				return err
			}
		}
	}
	if len(keys) == len(s.keys) {
		return nil
	}
	if s.path != "" {
		b, err := json.MarshalIndent(keys, "", "\t")
		if err != nil {
			return err
		}
		if err := secretfile.Write(s.path, append(b, '\n')); err != nil {
			return err
		}
	}
	s.keys = keys
	return nil
}

// none reports whether no container or blob of the account can have a scope, where declared are those it has now.
func (s *scopes) none(account string, declared []string) bool {
	if len(declared) > 0 {
		return false
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	for id := range s.keys {
		if owner, _, ok := strings.Cut(id, "/"); !ok || owner == account {
			return false
		}
	}
	return true
}

// known reports whether the account's scope has a key, declared or not.
func (s *scopes) known(account, name string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.keys[s.idOf(account, name)] != nil
}

// cipher returns the cipher of a scope that has a key.
func (s *scopes) cipher(account, name string) (block cipher.Block, err error) {
	s.mu.RLock()
	id := s.idOf(account, name)
	block = s.ciphers[id]
	key := s.keys[id]
	s.mu.RUnlock()
	if block != nil {
		return block, nil
	}
	if block, err = contentCipher(key); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ciphers[id] = block
	return block, nil
}

// scopeCipher returns the cipher of an account's scope. It fails with errNoScope or errScopeDisabled.
func (s *Service) scopeCipher(account, name string) (cipher.Block, error) {
	if !slices.Contains(s.accounts.Blob(account).Scopes, name) {
		if s.scopes.known(account, name) {
			return nil, errScopeDisabled
		}
		return nil, errNoScope
	}
	if !s.scopes.known(account, name) { // the account was given it while the process runs
		if err := s.scopes.declare(account, []string{name}); err != nil {
			return nil, fmt.Errorf("encryption scopes: %w", err)
		}
	}
	return s.scopes.cipher(account, name)
}

// declareScopes makes the keys of all accounts' scopes, so that a file that cannot be written shows at the start.
func (s *Service) declareScopes() error {
	for _, account := range s.accounts.Names() {
		if err := s.scopes.declare(account, s.accounts.Blob(account).Scopes); err != nil {
			return err
		}
	}
	return nil
}

// defaultScope reads the scope that a new container gives its blobs, "" for none, and whether they can have no other.
func (s *Service) defaultScope(c *call) (scope string, only bool, err error) {
	scope = c.Header("X-Ms-Default-Encryption-Scope")
	switch deny := c.Header("X-Ms-Deny-Encryption-Scope-Override"); deny {
	case "", "false":
	case "true":
		if only = true; scope == "" {
			return "", false, wire.MissingHeader("x-ms-default-encryption-scope")
		}
	default:
		return "", false, wire.InvalidHeader("x-ms-deny-encryption-scope-override", deny)
	}
	if scope == "" || scope == accountScope {
		return "", only, nil
	}
	_, err = s.scopeCipher(c.Account, scope)
	return scope, only, err
}
