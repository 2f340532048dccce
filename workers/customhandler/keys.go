package customhandler

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
	"strings"
)

// The names of keys in a key file are those of the Functions host's Kubernetes secrets. A name that ends with a dot
// stands for all names that begin with it.
// https://learn.microsoft.com/azure/azure-functions/function-keys-how-to
const (
	keyMaster    = "host.master"
	keyFunctions = "host.function."
	keySystem    = "host.systemkey."
	keyFunction  = "functions."

	keyEvents  = keySystem + "eventgrid_extension"
	keyBlobs   = keySystem + "blobs_extension"
	keyDurable = keySystem + "durabletask_extension"
)

// keyHeader is the header for a key; the query parameter is code.
const keyHeader = "X-Functions-Key"

// accessKeys are the keys that requests must have, by their names in lower case. Nil: no keys are asked for.
type accessKeys map[string]string

// openKeys reads a key file, and writes one with random keys if it does not exist.
func openKeys(path string) (accessKeys, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return writeKeys(path)
	}
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
		name = strings.ToLower(name)
		known := name == keyMaster
		for _, prefix := range []string{keyFunctions, keySystem, keyFunction} {
			known = known || strings.HasPrefix(name, prefix) && len(name) > len(prefix)
		}
		if !known {
			return nil, fmt.Errorf("keys: %s: %q is not the name of a key; want host.master, host.function.NAME, "+
				"host.systemKey.NAME or functions.FUNCTION.NAME", path, name)
		}
		keys[name] = value
	}
	if keys[keyMaster] == "" {
		return nil, fmt.Errorf("keys: %s has no %s", path, keyMaster)
	}
	return keys, nil
}

// writeKeys writes a key file with random keys, which only its owner can read.
func writeKeys(path string) (accessKeys, error) {
	keys, named := accessKeys{}, map[string]string{}
	for _, name := range []string{keyMaster, keyFunctions + "default", keyEvents, keyBlobs, keyDurable} {
		keys[name] = rand.Text() + rand.Text()
		named[strings.Replace(name, keySystem, "host.systemKey.", 1)] = keys[name]
	}
	text, err := json.MarshalIndent(named, "", "  ")
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("keys: %w", err)
	}
	_, err = f.Write(append(text, '\n'))
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, errors.Join(fmt.Errorf("keys: %w", err), os.Remove(path))
	}
	return keys, nil
}

// admit reports whether a request has the master key or one of the named keys; if not it answers with 401, without a
// body, as the Functions host does.
func (k accessKeys) admit(w http.ResponseWriter, r *http.Request, names ...string) bool {
	if k == nil {
		return true
	}
	given := r.Header.Get(keyHeader)
	if given == "" {
		given = r.URL.Query().Get("code")
	}
	admitted := false
	for name, value := range k {
		for _, wanted := range append(names, keyMaster) {
			if name == wanted || strings.HasSuffix(wanted, ".") && strings.HasPrefix(name, wanted) {
				admitted = subtle.ConstantTimeCompare([]byte(given), []byte(value)) == 1 || admitted
			}
		}
	}
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
func (k accessKeys) admitTo(w http.ResponseWriter, r *http.Request, f *function) bool {
	switch f.authLevel {
	case authAnonymous:
		return true
	case authFunction:
		return k.admit(w, r, keyFunctions, keyFunction+strings.ToLower(f.name)+".")
	case authSystem:
		return k.admit(w, r, keySystem)
	}
	return k.admit(w, r)
}

// first returns a key of the name, or the master key.
func (k accessKeys) first(name string) string {
	if value := k[name]; value != "" {
		return value
	}
	return k[keyMaster]
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
