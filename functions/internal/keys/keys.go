// Package keys has the keys that requests to functions must have: the file that they are kept in, which requests they
// admit, and the API of Azure Functions by which they are listed and changed. It knows of functions only their names
// and access levels.
//
// Start with Store.Admit, and with API.Register for the API.
package keys

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
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
	Master       = "host.master"
	keyFunctions = "host.function."
	keySystem    = "host.systemkey."
	namedSystem  = "host.systemKey." // keySystem as it is written
	keyFunction  = "functions."

	Events  = keySystem + "eventgrid_extension"
	Blobs   = keySystem + "blobs_extension"
	Durable = keySystem + "durabletask_extension"
)

// Header is the header for a key; the query parameter is code.
const Header = "X-Functions-Key"

// Store holds the keys that requests must have, and the file that they are kept in. Nil: no keys are asked for.
type Store struct {
	path string
	mu   sync.RWMutex // guards keys, and is held while the file changes
	keys accessKeys
}

// accessKeys are keys by their names in lower case.
type accessKeys map[string]accessKey

type accessKey struct{ name, value string }

// add adds a key, or replaces its value.
func (k accessKeys) add(name, value string) { k[strings.ToLower(name)] = accessKey{name, value} }

// Open reads a key file, and writes one with random keys if it does not exist.
func Open(path string) (*Store, error) {
	keys, err := read(path)
	if errors.Is(err, fs.ErrNotExist) {
		keys = accessKeys{}
		for _, name := range []string{Master, keyFunctions + "default", Events, Blobs, Durable} {
			keys.add(strings.Replace(name, keySystem, namedSystem, 1), newKey())
		}
		err = keys.write(path, secretfile.Create)
	}
	if err != nil {
		return nil, err
	}
	return &Store{path: path, keys: keys}, nil
}

// newKey returns a random key.
func newKey() string { return rand.Text() + rand.Text() }

// read reads a key file.
func read(path string) (accessKeys, error) {
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
		known := lower == Master
		for _, prefix := range []string{keyFunctions, keySystem, keyFunction} {
			known = known || strings.HasPrefix(lower, prefix) && len(lower) > len(prefix)
		}
		if !known {
			return nil, fmt.Errorf("keys: %s: %q is not the name of a key; want host.master, host.function.NAME, "+
				"host.systemKey.NAME or functions.FUNCTION.NAME", path, name)
		}
		keys.add(name, value)
	}
	if keys[Master].value == "" {
		return nil, fmt.Errorf("keys: %s has no %s", path, Master)
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
func (s *Store) change(change func(accessKeys) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	keys, err := read(s.path)
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

// Get returns the value of a key, or "".
func (s *Store) Get(name string) string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.keys[strings.ToLower(name)].value
}

// list returns the keys whose names begin with a prefix, without it.
func (s *Store) list(prefix string) []accessKey {
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

// Admit reports whether a request has the master key or one of the named keys; if not it answers with 401, without a
// body, as the Functions host does.
func (s *Store) Admit(w http.ResponseWriter, r *http.Request, names ...string) bool {
	if s == nil {
		return true
	}
	given := r.Header.Get(Header)
	if given == "" {
		given = r.URL.Query().Get("code")
	}
	admitted := false
	s.mu.RLock()
	for name, key := range s.keys {
		for _, wanted := range append(names, Master) {
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

// Access levels of HTTP triggers; there are admin and user besides. Level user is for the master key alone, as in the
// Functions host, where no key has it.
const (
	Anonymous   = "anonymous"
	ForFunction = "function"
	ForSystem   = "system"
)

// AdmitTo reports whether a request may call a function with an access level.
func (s *Store) AdmitTo(w http.ResponseWriter, r *http.Request, level, function string) bool {
	switch level {
	case Anonymous:
		return true
	case ForFunction:
		return s.Admit(w, r, keyFunctions, keyFunction+strings.ToLower(function)+".")
	case ForSystem:
		return s.Admit(w, r, keySystem)
	}
	return s.Admit(w, r)
}

// First returns a key of the name, or the master key.
func (s *Store) First(name string) string {
	if value := s.Get(name); value != "" {
		return value
	}
	return s.Get(Master)
}
