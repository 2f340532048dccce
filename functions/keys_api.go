package functions

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/lazuli-storage/lazuli/internal/lazyregexp"
)

// masterName is the master key's name in the key API.
const masterName = "_master"

// The bounds of keys that requests can make.
const (
	maxKeys    = 1000
	maxKeyBody = 8 << 10 // bytes of a request
	maxKey     = 1024    // bytes of a value
)

var keyName = lazyregexp.New(`^[A-Za-z0-9._-]{1,128}$`)

// keyPaths adds the key management API: keys of functions, of the host for all functions (keys, functionkeys), and of
// extensions (systemkeys), among which the master key counts.
// https://learn.microsoft.com/azure/azure-functions/function-keys-how-to,
// https://github.com/Azure/azure-functions-host/wiki/Key-management-API
func (h *Host) keyPaths(admin func(pattern string, do http.HandlerFunc)) {
	// in finds the names of the keys that a request is about: those with a prefix, of which name has the one.
	in := func(do func(w http.ResponseWriter, r *http.Request, prefix, name string)) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			prefix, name := "", r.PathValue("key")
			switch strings.ToLower(r.PathValue("scope")) {
			case "":
				if f, err := h.functionNamed(r.PathValue("name")); err == nil {
					prefix = keyFunction + f.name + "."
				}
			case "keys", "functionkeys":
				prefix = keyFunctions
			case "systemkeys":
				prefix = namedSystem
			}
			switch {
			case prefix == "":
				w.WriteHeader(http.StatusNotFound)
			case h.keys == nil:
				http.Error(w, "no keys are asked for: start with --keys FILE", http.StatusNotImplemented)
			default:
				do(w, r, prefix, name)
			}
		}
	}
	for _, path := range []string{"/admin/functions/{name}/keys", "/admin/host/{scope}"} {
		admin("GET "+path, in(h.listKeys))
		admin("GET "+path+"/{key}", in(h.getKey))
		admin("POST "+path+"/{key}", in(func(w http.ResponseWriter, r *http.Request, prefix, name string) {
			h.setKey(w, r, prefix, name, newKey())
		}))
		admin("PUT "+path+"/{key}", in(h.putKey))
		admin("DELETE "+path+"/{key}", in(h.deleteKey))
	}
}

// apiKey is a key in the key API.
type apiKey struct {
	Name  string    `json:"name"`
	Value string    `json:"value"`
	Links []apiLink `json:"links,omitempty"`
}

type apiLink struct {
	Rel  string `json:"rel"`
	Href string `json:"href"`
}

// self is the link of a response to itself.
func self(r *http.Request) []apiLink {
	return []apiLink{{"self", "http://" + r.Host + r.URL.EscapedPath()}}
}

func (h *Host) listKeys(w http.ResponseWriter, r *http.Request, prefix, _ string) {
	found := h.keys.list(prefix)
	if len(found) == 0 && r.PathValue("name") != "" { // A function gets its first key by the first such request.
		err := h.keys.change(func(keys accessKeys) error {
			keys.add(prefix+"default", newKey())
			return nil
		})
		if err != nil {
			h.refuseKey(w, err)
			return
		}
		found = h.keys.list(prefix)
	}
	list := make([]apiKey, 0, len(found))
	for _, k := range found {
		list = append(list, apiKey{Name: k.name, Value: k.value})
	}
	writeJSON(w, http.StatusOK, map[string]any{"keys": list, "links": self(r)})
}

// keyNamed returns the full name of a key. The master key has its own.
func keyNamed(prefix, name string) string {
	if strings.EqualFold(name, masterName) && !strings.HasPrefix(prefix, keyFunction) {
		return keyMaster
	}
	return prefix + name
}

func (h *Host) getKey(w http.ResponseWriter, r *http.Request, prefix, name string) {
	full := keyNamed(prefix, name)
	value := h.keys.get(full)
	if value == "" || full == keyMaster && prefix != namedSystem {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	writeJSON(w, http.StatusOK, apiKey{name, value, self(r)})
}

func (h *Host) putKey(w http.ResponseWriter, r *http.Request, prefix, name string) {
	var body struct{ Value *string }
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxKeyBody)).Decode(&body)
	switch {
	case err != nil || body.Value == nil || len(*body.Value) > maxKey:
		http.Error(w, "Invalid key value", http.StatusBadRequest)
		return
	case *body.Value == "":
		*body.Value = newKey()
	}
	h.setKey(w, r, prefix, name, *body.Value)
}

var errTooManyKeys = errors.New("there are too many keys")

func (h *Host) setKey(w http.ResponseWriter, r *http.Request, prefix, name, value string) {
	if !keyName().MatchString(name) {
		http.Error(w, "Invalid key name.", http.StatusBadRequest)
		return
	}
	status := http.StatusOK
	err := h.keys.change(func(keys accessKeys) error {
		full := keyNamed(prefix, name)
		if old, ok := keys[strings.ToLower(full)]; ok {
			full = old.name
		} else if status = http.StatusCreated; len(keys) >= maxKeys {
			return errTooManyKeys
		}
		keys.add(full, value)
		return nil
	})
	if err != nil {
		h.refuseKey(w, err)
		return
	}
	if status == http.StatusCreated {
		w.Header().Set("Location", self(r)[0].Href)
	}
	writeJSON(w, status, apiKey{name, value, self(r)})
}

var errNoKey = errors.New("there is no such key")

func (h *Host) deleteKey(w http.ResponseWriter, _ *http.Request, prefix, name string) {
	if strings.EqualFold(name, masterName) {
		http.Error(w, "Cannot delete System Key.", http.StatusBadRequest)
		return
	}
	err := h.keys.change(func(keys accessKeys) error {
		full := strings.ToLower(prefix + name)
		if _, ok := keys[full]; !ok {
			return errNoKey
		}
		delete(keys, full)
		return nil
	})
	if err != nil {
		h.refuseKey(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// refuseKey answers a request whose change was not made.
func (h *Host) refuseKey(w http.ResponseWriter, err error) {
	switch {
	case errors.Is(err, errNoKey):
		w.WriteHeader(http.StatusNotFound)
	case errors.Is(err, errTooManyKeys):
		http.Error(w, err.Error(), http.StatusConflict)
	default:
		h.log.Error("the keys cannot be changed", "err", err)
		w.WriteHeader(http.StatusInternalServerError)
	}
}
