package properties

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"sync"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// Registry holds the service properties of all accounts of one service, and serves the operations on them. Every
// request asks for the CORS rules, so they are kept in memory, parsed. It is safe for concurrent use.
//
// The service keeps the values, as bytes that only this package interprets.
type Registry struct {
	service wire.Service
	// features are the properties that may be turned on.
	features Features
	backend  Backend
	log      *slog.Logger

	mu     sync.Mutex // held during changes of this process, so that backend and memory change in the same order
	parsed sync.Map   // account -> *parsed
}

// Backend is the place where a service keeps the values.
type Backend struct {
	// Change durably replaces an account's value by the one that change returns for the current value, nil for none. No
	// other change may come between the two. change may be called several times; its error is returned, and nothing is
	// replaced then.
	Change func(ctx context.Context, account string,
		change func(old []byte) (p *Properties, value []byte, err error)) error
	// Reports is set if the service reports each change to Changed, those of this process included, in the order in which
	// they were made.
	Reports bool
	// Current, if set, returns an account's value, nil for none. It is for a service whose values another process may
	// change. It must return the same slice until the value changes, and is called for every request. Without it memory
	// has what Load and Set gave it.
	Current func(account string) []byte
}

// parsed is the value of one account.
type parsed struct {
	value      []byte // as Current returned it; nil without Current
	properties Properties
}

// none are the properties of an account that never set any: everything off.
var none Properties

// NewRegistry returns a registry without accounts. The service cannot turn on other properties than features.
func NewRegistry(service wire.Service, features Features, backend Backend, log *slog.Logger) *Registry {
	if log == nil {
		log = slog.Default()
	}
	return &Registry{service: service, features: features, backend: backend, log: log}
}

// Load adds a stored value at the start of the service.
func (r *Registry) Load(account string, value []byte) error {
	p, err := decode(value)
	if err != nil {
		return fmt.Errorf("service properties of %s: %w", account, err)
	}
	r.parsed.Store(account, &parsed{properties: *p})
	return nil
}

// Changed replaces a value that a node of a cluster has stored; nil removes it.
func (r *Registry) Changed(account string, value []byte) {
	if value == nil {
		r.parsed.Delete(account)
		return
	}
	if err := r.Load(account, value); err != nil {
		r.log.Error("cannot read the service properties that a node has stored", "service", r.service.String(), "err", err)
	}
}

// Check returns an error if value is not one that [Backend] was given to store.
func Check(value []byte) error {
	_, err := decode(value)
	return err
}

func decode(value []byte) (*Properties, error) {
	p := new(Properties)
	return p, json.Unmarshal(value, p)
}

// Of returns the properties of an account. They are shared: the caller must not change them.
func (r *Registry) Of(account string) *Properties {
	v, ok := r.parsed.Load(account)
	if r.backend.Current == nil {
		if !ok {
			return &none
		}
		return &v.(*parsed).properties
	}
	value := r.backend.Current(account)
	if len(value) == 0 {
		return &none
	}
	if ok {
		if p := v.(*parsed); len(p.value) == len(value) && &p.value[0] == &value[0] {
			return &p.properties
		}
	}
	p, err := decode(value)
	if err != nil {
		r.log.Error("cannot read stored service properties", "service", r.service.String(), "account", account, "err", err)
		return &none
	}
	fresh := &parsed{value, *p}
	r.parsed.Store(account, fresh)
	return &fresh.properties
}

// Set serves Set Service Properties but for the answer, which is 202 without a body. A section that the document lacks
// keeps its value. https://learn.microsoft.com/rest/api/storageservices/set-blob-service-properties
func (r *Registry) Set(req *wire.Request) error {
	body, err := req.ReadBody(MaxBody)
	if err != nil {
		return err
	}
	// The lock is held until the cache has the value: otherwise an earlier Set could overwrite a later one there. The
	// closure can run twice, so it begins with empty properties.
	r.mu.Lock()
	defer r.mu.Unlock()
	var p Properties
	err = r.backend.Change(req.HTTP.Context(), req.Account, func(old []byte) (*Properties, []byte, error) {
		p = Properties{}
		if len(old) > 0 {
			before, err := decode(old)
			if err != nil {
				return nil, nil, fmt.Errorf("stored service properties of %s: %w", req.Account, err)
			}
			p = *before
		}
		var err error
		if p, err = p.Update(r.service, body, r.features); err != nil {
			return nil, nil, err
		}
		value, err := json.Marshal(p)
		if err != nil {
			return nil, nil, fmt.Errorf("encoding service properties: %w", err)
		}
		return &p, value, nil
	})
	if err != nil {
		return err
	}
	if r.backend.Current == nil && !r.backend.Reports {
		r.parsed.Store(req.Account, &parsed{properties: p})
	}
	return nil
}

// Remove calls remove, which deletes the account's value from the backend, and forgets it if that succeeded.
func (r *Registry) Remove(account string, remove func() error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := remove(); err != nil {
		return err
	}
	if !r.backend.Reports {
		r.parsed.Delete(account)
	}
	return nil
}

// Get serves Get Service Properties in the form of version v; 0 is the newest.
// https://learn.microsoft.com/rest/api/storageservices/get-blob-service-properties
func (r *Registry) Get(req *wire.Request, v wire.Version) error {
	return req.XML(http.StatusOK, r.Of(req.Account).XML(r.service, v))
}

// Preflight serves the preflight operation: whether a browser may send the request that it describes.
// https://learn.microsoft.com/rest/api/storageservices/preflight-blob-request
func (r *Registry) Preflight(req *wire.Request) error {
	if err := preflight(req, r.Of(req.Account).CORS); err != nil {
		return err
	}
	return req.Status(http.StatusOK)
}

// SetCORS sets the CORS headers of the answer to a request that is not a preflight.
func (r *Registry) SetCORS(req *wire.Request) { setCORS(req, r.Of(req.Account).CORS) }
