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

	"github.com/lazuli-storage/lazuli/internal/secretfile"
	"github.com/lazuli-storage/lazuli/internal/wire"
)

// scopes are the encryption scopes. In Azure the account's management makes them; here the operator declares them, for all
// accounts. A scope gets a random key when it is first declared. The keys of all that ever were stay in one file; one that is
// not declared any more is disabled: its blobs are there and cannot be read until it is declared again.
// https://learn.microsoft.com/azure/storage/blobs/encryption-scope-overview
type scopes struct {
	enabled map[string]cipher.Block
	// known are the names that have a key, declared or not.
	known map[string]bool
}

// maxScopeFile bounds the file of keys in bytes.
const maxScopeFile = 16 << 20

// ValidScope checks the name of an encryption scope: 3 to 63 letters, digits and hyphens.
func ValidScope(name string) error {
	for _, c := range name {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' {
			return fmt.Errorf("%q is no name of an encryption scope: it has letters, digits and hyphens", name)
		}
	}
	if len(name) < 3 || len(name) > 63 {
		return fmt.Errorf("%q is no name of an encryption scope: it has 3 to 63 characters", name)
	}
	return nil
}

// openScopes reads the keys at path and adds those of names that have none. Without a path the keys last as long as the
// process.
func openScopes(path string, names []string) (s scopes, err error) {
	s = scopes{enabled: map[string]cipher.Block{}, known: map[string]bool{}}
	keys := map[string][]byte{} // in base64
	if path != "" {
		switch b, err := secretfile.Read(path, maxScopeFile); {
		case err == nil:
			if err := json.Unmarshal(b, &keys); err != nil {
				return s, fmt.Errorf("%s: %w", path, err)
			}
		case !errors.Is(err, fs.ErrNotExist):
			return s, err
		}
	}
	before := len(keys)
	for _, name := range names {
		if err := ValidScope(name); err != nil {
			return s, err
		}
		if keys[name] == nil {
			keys[name] = make([]byte, 32)
			if _, err := rand.Read(keys[name]); err != nil {
				return s, err
			}
		}
	}
	if len(keys) > before && path != "" {
		b, err := json.MarshalIndent(keys, "", "\t")
		if err != nil {
			return s, err
		}
		if err := secretfile.Write(path, append(b, '\n')); err != nil {
			return s, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(keys)) {
		if len(keys[name]) != 32 {
			return s, fmt.Errorf("%s: the key of %s has %d bytes, not 32", path, name, len(keys[name]))
		}
		s.known[name] = true
		if slices.Contains(names, name) {
			if s.enabled[name], err = contentCipher(keys[name]); err != nil {
				return s, err
			}
		}
	}
	return s, nil
}

// none reports whether no container or blob can have a scope.
func (s *scopes) none() bool { return len(s.known) == 0 }

// key returns the cipher of a scope. It fails with errNoScope or errScopeDisabled.
func (s *scopes) key(name string) (cipher.Block, error) {
	switch block := s.enabled[name]; {
	case block != nil:
		return block, nil
	case s.known[name]:
		return nil, errScopeDisabled
	}
	return nil, errNoScope
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
	_, err = s.scopes.key(scope)
	return scope, only, err
}
