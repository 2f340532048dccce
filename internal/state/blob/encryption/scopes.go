package encryption

import (
	"bytes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/lazuli-storage/lazuli/internal/storage/secretfile"
)

// Scopes holds the keys of encryption scopes. In Azure the account's management creates scopes; here they are a setting
// of the account. A scope gets a random key when it is first declared; scopes of the same name in two accounts have two
// keys. One file holds the keys of all scopes that were ever declared. A scope that is no longer declared is disabled:
// its blobs are kept and cannot be read until it is declared again.
// https://learn.microsoft.com/azure/storage/blobs/encryption-scope-overview
//
// Its methods are safe for concurrent use.
type Scopes struct {
	path string // "" keeps keys in memory only
	// agree, if not nil, makes the nodes of a cluster have the same keys: it returns the key of an id, which is the given
	// one if the cluster has none yet.
	agree func(id string, key []byte) ([]byte, error)
	// declared returns the scopes that an account has now.
	declared func(account string) []string

	mu sync.RWMutex // guards what follows
	// keys are 32 bytes each, as in the file, under "account/scope". A name without an account is a key of earlier
	// releases, whose scopes belonged to all accounts: it stays the key of each account's scope of that name.
	keys map[string][]byte
	// ciphers are made from keys on first use.
	ciphers map[string]cipher.Block
}

const (
	// maxScopeFile bounds the file of keys in bytes.
	maxScopeFile = 16 << 20
	scopeKeySize = 32
)

// CheckScopes reads the keys of encryption scopes in the file at path, if it exists. It returns an error if they are
// damaged.
func CheckScopes(path string) error {
	_, err := OpenScopes(path, func(string) []string { return nil })
	return err
}

// OpenScopes reads the keys at path, if the file exists. With path "" keys last as long as the process. declared
// returns the scopes that an account has now.
func OpenScopes(path string, declared func(account string) []string) (*Scopes, error) {
	s := &Scopes{path: path, declared: declared, keys: map[string][]byte{}, ciphers: map[string]cipher.Block{}}
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
	// Content that is decrypted with a damaged key would be wrong, without any error. Files of earlier releases have no
	// sum.
	id, sum := findSum(s.keys)
	if id != "" {
		delete(s.keys, id)
		if id != sumID || !bytes.Equal(sum, sumOf(s.keys)) {
			return nil, fmt.Errorf("%s: the file is damaged: its checksum does not match; restore it from a copy", path)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(s.keys)) {
		if n := len(s.keys[id]); n != scopeKeySize {
			return nil, fmt.Errorf("%s: the key of %s has %d bytes, not %d", path, id, n, scopeKeySize)
		}
	}
	return s, nil
}

// Agree makes the scopes use keys that all nodes of a cluster share, see [Scopes.Learn]. agree returns the key of an
// id, which is the given one if the cluster has none, and must not be called in a transaction: a new scope can be used
// after the next Declare. It must be called before the scopes are used, which must have no path.
func (s *Scopes) Agree(agree func(id string, key []byte) ([]byte, error)) { s.agree = agree }

// Learn adds a key of the cluster.
func (s *Scopes) Learn(id string, key []byte) error {
	if len(key) != scopeKeySize {
		return fmt.Errorf("the key of %s has %d bytes, not %d", id, len(key), scopeKeySize)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	keys := maps.Clone(s.keys)
	keys[id] = bytes.Clone(key)
	s.keys = keys
	return nil
}

// agreeOn makes the cluster have keys for scopes of an account.
func (s *Scopes) agreeOn(account string, names []string) error {
	for _, name := range names {
		if s.known(account, name) {
			continue
		}
		key := make([]byte, scopeKeySize)
		if _, err := rand.Read(key); err != nil {
			return err
		}
		id := account + "/" + name
		agreed, err := s.agree(id, key)
		if err == nil {
			err = s.Learn(id, agreed)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// sumID is the name of the entry with the SHA-256 of all others. No account has an empty name.
const sumID = "/sha256"

// sumOf returns the SHA-256 of the names and keys, in order.
func sumOf(keys map[string][]byte) []byte {
	h := sha256.New()
	for _, id := range slices.Sorted(maps.Keys(keys)) {
		fmt.Fprintf(h, "%q %x\n", id, keys[id])
	}
	return h.Sum(nil)
}

// findSum returns the entry with the checksum, even if its name is damaged; id is "" if none exists.
func findSum(keys map[string][]byte) (id string, sum []byte) {
	if sum := keys[sumID]; sum != nil {
		return sumID, sum
	}
	for id, sum := range keys {
		others := maps.Clone(keys)
		delete(others, id)
		if bytes.Equal(sum, sumOf(others)) {
			return id, sum
		}
	}
	return "", nil
}

// keyID is the name in keys of the key of an account's scope. The caller holds mu.
func (s *Scopes) keyID(account, name string) string {
	if id := account + "/" + name; s.keys[id] != nil || s.keys[name] == nil {
		return id
	}
	return name
}

// Declare creates keys for the account's scopes that have none, and makes them durable.
func (s *Scopes) Declare(account string) error { return s.declare(account, s.declared(account)) }

func (s *Scopes) declare(account string, names []string) error {
	if s.agree != nil {
		return s.agreeOn(account, names)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	keys := maps.Clone(s.keys)
	for _, name := range names {
		if id := s.keyID(account, name); keys[id] == nil {
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
		if err := WriteKeys(s.path, keys); err != nil {
			return err
		}
	}
	s.keys = keys
	return nil
}

// ReadKeys returns the keys in a file, by their ids, for [WriteKeys] and the keys of a cluster. The map is empty if the
// file does not exist.
func ReadKeys(path string) (map[string][]byte, error) {
	s, err := OpenScopes(path, nil)
	if err != nil {
		return nil, err
	}
	return s.keys, nil
}

// WriteKeys writes a file of keys durably.
func WriteKeys(path string, keys map[string][]byte) error {
	withSum := maps.Clone(keys)
	withSum[sumID] = sumOf(keys)
	b, err := json.MarshalIndent(withSum, "", "\t")
	if err != nil {
		return err
	}
	return secretfile.Write(path, append(b, '\n'))
}

// Unused reports whether no container or blob of the account can be in a scope: it has none and never had one.
func (s *Scopes) Unused(account string) bool {
	if len(s.declared(account)) > 0 {
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
func (s *Scopes) known(account, name string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.keys[s.keyID(account, name)] != nil
}

// Cipher returns the cipher of an account's scope. It fails with [ErrScopeNotFound] or [ErrScopeDisabled].
func (s *Scopes) Cipher(account, name string) (cipher.Block, error) {
	if !slices.Contains(s.declared(account), name) {
		if s.known(account, name) {
			return nil, ErrScopeDisabled
		}
		return nil, ErrScopeNotFound
	}
	if !s.known(account, name) { // the account was given it while the process runs
		if s.agree != nil {
			return nil, ErrScopeNotFound
		}
		if err := s.declare(account, []string{name}); err != nil {
			return nil, fmt.Errorf("encryption scopes: %w", err)
		}
	}
	return s.cipher(account, name)
}

// cipher returns the cipher of a scope that has a key.
func (s *Scopes) cipher(account, name string) (block cipher.Block, err error) {
	s.mu.RLock()
	id := s.keyID(account, name)
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
