package functions

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/lazuli-storage/lazuli/internal/storage/secretfile"
)

// The names of keys in a key file are those of the Functions host's Kubernetes secrets. A name that ends with a dot
// stands for all names that begin with it.
// https://learn.microsoft.com/azure/azure-functions/function-keys-how-to
const (
	keyMaster    = "host.master"
	keyFunctions = "host.function."
	keySystem    = "host.systemkey."
	namedSystem  = "host.systemKey." // keySystem as it is written
	keyFunction  = "functions."

	keyEvents  = keySystem + "eventgrid_extension"
	keyBlobs   = keySystem + "blobs_extension"
	keyDurable = keySystem + "durabletask_extension"
)

// keyHeader is the header for a key; the query parameter is code.
const keyHeader = "X-Functions-Key"

// keyStore holds the keys that requests must have, and the file that they are kept in. Nil: no keys are asked for.
type keyStore struct {
	path string
	mu   sync.RWMutex // guards keys, and is held while the file changes
	keys accessKeys
}

// accessKeys are keys by their names in lower case.
type accessKeys map[string]accessKey

type accessKey struct{ name, value string }

// add adds a key, or replaces its value.
func (k accessKeys) add(name, value string) { k[strings.ToLower(name)] = accessKey{name, value} }

// openKeys reads a key file, and writes one with random keys if it does not exist.
func openKeys(path string) (*keyStore, error) {
	keys, err := readKeys(path)
	if errors.Is(err, fs.ErrNotExist) {
		keys = accessKeys{}
		for _, name := range []string{keyMaster, keyFunctions + "default", keyEvents, keyBlobs, keyDurable} {
			keys.add(strings.Replace(name, keySystem, namedSystem, 1), newKey())
		}
		err = keys.write(path, secretfile.Create)
	}
	if err != nil {
		return nil, err
	}
	return &keyStore{path: path, keys: keys}, nil
}

// newKey returns a random key.
func newKey() string { return rand.Text() + rand.Text() }

// readKeys reads a key file.
func readKeys(path string) (accessKeys, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("keys: %w", err)
	}
	var all map[string]string
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, fmt.Errorf("keys: %s is not an object of texts: %w", path, err)
	}
	keys := accessKeys{}
	for name, value := range all {
		if value == "" {
			return nil, fmt.Errorf("keys: %s: %s is empty", path, name)
		}
		lower := strings.ToLower(name)
		known := lower == keyMaster
		for _, prefix := range []string{keyFunctions, keySystem, keyFunction} {
			known = known || strings.HasPrefix(lower, prefix) && len(lower) > len(prefix)
		}
		if !known {
			return nil, fmt.Errorf("keys: %s: %q is not the name of a key; want host.master, host.function.NAME, "+
				"host.systemKey.NAME or functions.FUNCTION.NAME", path, name)
		}
		keys.add(name, value)
	}
	if keys[keyMaster].value == "" {
		return nil, fmt.Errorf("keys: %s has no %s", path, keyMaster)
	}
	return keys, nil
}

// write writes the keys to a file that only its owner can read.
func (k accessKeys) write(path string, how func(path string, data []byte) error) error {
	named := map[string]string{}
	for _, key := range k {
		named[key.name] = key.value
	}
	text, err := json.MarshalIndent(named, "", "  ")
	if err == nil {
		err = how(path, append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("keys: %w", err)
	}
	return nil
}

// change changes the keys and their file, of which it reads what others have changed. An error of change is returned.
func (s *keyStore) change(change func(accessKeys) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	keys, err := readKeys(s.path)
	if err != nil {
		return err
	}
	if err := change(keys); err != nil {
		return err
	}
	if err := keys.write(s.path, secretfile.Write); err != nil {
		return err
	}
	s.keys = keys
	return nil
}

// get returns the value of a key, or "".
func (s *keyStore) get(name string) string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.keys[strings.ToLower(name)].value
}

// list returns the keys whose names begin with a prefix, without it.
func (s *keyStore) list(prefix string) []accessKey {
	s.mu.RLock()
	defer s.mu.RUnlock()
	found := []accessKey{}
	for name, key := range s.keys {
		if strings.HasPrefix(name, strings.ToLower(prefix)) {
			found = append(found, accessKey{key.name[len(prefix):], key.value})
		}
	}
	slices.SortFunc(found, func(a, b accessKey) int { return strings.Compare(a.name, b.name) })
	return found
}

// admit reports whether a request has the master key or one of the named keys; if not it answers with 401, without a
// body, as the Functions host does.
func (s *keyStore) admit(w http.ResponseWriter, r *http.Request, names ...string) bool {
	if s == nil {
		return true
	}
	given := r.Header.Get(keyHeader)
	if given == "" {
		given = r.URL.Query().Get("code")
	}
	admitted := false
	s.mu.RLock()
	for name, key := range s.keys {
		for _, wanted := range append(names, keyMaster) {
			if name == wanted || strings.HasSuffix(wanted, ".") && strings.HasPrefix(name, wanted) {
				admitted = subtle.ConstantTimeCompare([]byte(given), []byte(key.value)) == 1 || admitted
			}
		}
	}
	s.mu.RUnlock()
	if !admitted {
		w.WriteHeader(http.StatusUnauthorized)
	}
	return admitted
}

// The access levels of HTTP triggers, besides admin and user. Level user is for the master key alone, as in the
// Functions host, where no key has it.
const (
	authAnonymous = "anonymous"
	authFunction  = "function"
	authSystem    = "system"
)

// admitTo reports whether a request may call a function.
func (s *keyStore) admitTo(w http.ResponseWriter, r *http.Request, f *function) bool {
	switch f.authLevel {
	case authAnonymous:
		return true
	case authFunction:
		return s.admit(w, r, keyFunctions, keyFunction+strings.ToLower(f.name)+".")
	case authSystem:
		return s.admit(w, r, keySystem)
	}
	return s.admit(w, r)
}

// first returns a key of the name, or the master key.
func (s *keyStore) first(name string) string {
	if value := s.get(name); value != "" {
		return value
	}
	return s.get(keyMaster)
}

// serveDurable serves the management API of workflows to requests with a key, whose responses then have addresses with
// a key.
func (h *Host) serveDurable(w http.ResponseWriter, r *http.Request) {
	if !h.keys.admit(w, r, keyDurable) {
		return
	}
	if h.keys != nil {
		r = r.Clone(r.Context())
		query := r.URL.Query()
		query.Set("code", h.keys.first(keyDurable))
		r.URL.RawQuery = query.Encode()
	}
	h.durable.ServeHTTP(w, r)
}

// durableCalls is the place of the management API for the app's own clients, which have no keys: an address that only
// they know stands for one.
const durableCalls = "/runtime/durabletask/"

// serveDurableCalls serves requests of the app's own clients.
func (h *Host) serveDurableCalls(w http.ResponseWriter, r *http.Request) {
	if subtle.ConstantTimeCompare([]byte(r.PathValue("secret")), []byte(h.durableSecret)) != 1 {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	prefix := durableCalls + h.durableSecret + "/"
	address := *r.URL
	address.Path = durablePath + strings.TrimPrefix(r.URL.Path, prefix)
	if r.URL.RawPath != "" {
		address.RawPath = durablePath + strings.TrimPrefix(r.URL.RawPath, prefix)
	}
	r = r.Clone(r.Context())
	r.URL = &address
	h.durable.ServeHTTP(w, r)
}

// durableClient returns what clients of workflows need to know.
func (h *Host) durableClient(messages bool) DurableClient {
	c := DurableClient{Origin: h.origin, Calls: h.origin + durablePath, Messages: messages}
	if h.keys != nil {
		c.Calls = h.origin + durableCalls + h.durableSecret + "/"
		c.Query = "code=" + url.QueryEscape(h.keys.first(keyDurable))
	}
	return c
}
