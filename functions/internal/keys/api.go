package keys

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strings"

	"github.com/lazuli-storage/lazuli/functions/internal/jsonvalue"
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

// API is the key management API of a host.
type API struct {
	Keys *Store // nil: no keys are asked for
	// Function returns the name of a function as the app has it, for a name in any case.
	Function func(name string) (string, bool)
	Log      *slog.Logger
}

// Register hands the handlers of the API to admin: those of the keys of functions, of the host for all functions (keys,
// functionkeys), and of extensions (systemkeys), among which the master key counts.
// https://learn.microsoft.com/azure/azure-functions/function-keys-how-to,
// https://github.com/Azure/azure-functions-host/wiki/Key-management-API
func (a *API) Register(admin func(pattern string, do http.HandlerFunc)) {
	// in finds the names of the keys that a request is about: those with a prefix, of which name has the one.
	in := func(do func(w http.ResponseWriter, r *http.Request, prefix, name string)) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			prefix, name := "", r.PathValue("key")
			switch strings.ToLower(r.PathValue("scope")) {
			case "":
				if function, ok := a.Function(r.PathValue("name")); ok {
					prefix = keyFunction + function + "."
				}
			case "keys", "functionkeys":
				prefix = keyFunctions
			case "systemkeys":
				prefix = namedSystem
			}
			switch {
			case prefix == "":
				w.WriteHeader(http.StatusNotFound)
			case a.Keys == nil:
				http.Error(w, "no keys are asked for: start with --keys FILE", http.StatusNotImplemented)
			default:
				do(w, r, prefix, name)
			}
		}
	}
	for _, path := range []string{"/admin/functions/{name}/keys", "/admin/host/{scope}"} {
		admin("GET "+path, in(a.listKeys))
		admin("GET "+path+"/{key}", in(a.getKey))
		admin("POST "+path+"/{key}", in(func(w http.ResponseWriter, r *http.Request, prefix, name string) {
			a.setKey(w, r, prefix, name, newKey())
		}))
		admin("PUT "+path+"/{key}", in(a.putKey))
		admin("DELETE "+path+"/{key}", in(a.deleteKey))
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

func (a *API) listKeys(w http.ResponseWriter, r *http.Request, prefix, _ string) {
	found := a.Keys.list(prefix)
	if len(found) == 0 && r.PathValue("name") != "" { // A function gets its first key by the first such request.
		err := a.Keys.change(func(keys accessKeys) error {
			keys.add(prefix+"default", newKey())
			return nil
		})
		if err != nil {
			a.refuseKey(w, err)
			return
		}
		found = a.Keys.list(prefix)
	}
	list := make([]apiKey, 0, len(found))
	for _, k := range found {
		list = append(list, apiKey{Name: k.name, Value: k.value})
	}
	jsonvalue.Respond(w, http.StatusOK, map[string]any{"keys": list, "links": self(r)})
}

// keyNamed returns the full name of a key. The master key has its own.
func keyNamed(prefix, name string) string {
	if strings.EqualFold(name, masterName) && !strings.HasPrefix(prefix, keyFunction) {
		return Master
	}
	return prefix + name
}

func (a *API) getKey(w http.ResponseWriter, r *http.Request, prefix, name string) {
	full := keyNamed(prefix, name)
	value := a.Keys.Get(full)
	if value == "" || full == Master && prefix != namedSystem {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	jsonvalue.Respond(w, http.StatusOK, apiKey{name, value, self(r)})
}

func (a *API) putKey(w http.ResponseWriter, r *http.Request, prefix, name string) {
	var body struct{ Value *string }
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxKeyBody)).Decode(&body)
	switch {
	case err != nil || body.Value == nil || len(*body.Value) > maxKey:
		http.Error(w, "Invalid key value", http.StatusBadRequest)
		return
	case *body.Value == "":
		*body.Value = newKey()
	}
	a.setKey(w, r, prefix, name, *body.Value)
}

var errTooManyKeys = errors.New("there are too many keys")

func (a *API) setKey(w http.ResponseWriter, r *http.Request, prefix, name, value string) {
	if !keyName().MatchString(name) {
		http.Error(w, "Invalid key name.", http.StatusBadRequest)
		return
	}
	status := http.StatusOK
	err := a.Keys.change(func(keys accessKeys) error {
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
		a.refuseKey(w, err)
		return
	}
	if status == http.StatusCreated {
		w.Header().Set("Location", self(r)[0].Href)
	}
	jsonvalue.Respond(w, status, apiKey{name, value, self(r)})
}

var errNoKey = errors.New("there is no such key")

func (a *API) deleteKey(w http.ResponseWriter, _ *http.Request, prefix, name string) {
	if strings.EqualFold(name, masterName) {
		http.Error(w, "Cannot delete System Key.", http.StatusBadRequest)
		return
	}
	err := a.Keys.change(func(keys accessKeys) error {
		full := strings.ToLower(prefix + name)
		if _, ok := keys[full]; !ok {
			return errNoKey
		}
		delete(keys, full)
		return nil
	})
	if err != nil {
		a.refuseKey(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// refuseKey answers a request whose change was not made.
func (a *API) refuseKey(w http.ResponseWriter, err error) {
	switch {
	case errors.Is(err, errNoKey):
		w.WriteHeader(http.StatusNotFound)
	case errors.Is(err, errTooManyKeys):
		http.Error(w, err.Error(), http.StatusConflict)
	default:
		a.Log.Error("the keys cannot be changed", "err", err)
		w.WriteHeader(http.StatusInternalServerError)
	}
}
