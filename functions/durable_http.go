package functions

import (
	"crypto/subtle"
	"net/http"
	"net/url"
	"strings"

	"github.com/lazuli-storage/lazuli/functions/internal/keys"
)

// serveDurable serves the management API of workflows to requests with a key, whose responses then have addresses with
// a key.
func (h *Host) serveDurable(w http.ResponseWriter, r *http.Request) {
	if !h.keys.Admit(w, r, keys.Durable) {
		return
	}
	if h.keys != nil {
		r = r.Clone(r.Context())
		query := r.URL.Query()
		query.Set("code", h.keys.First(keys.Durable))
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
		c.Query = "code=" + url.QueryEscape(h.keys.First(keys.Durable))
	}
	return c
}

// durablePath is the place where the management API of durable functions is.
const durablePath = "/runtime/webhooks/durabletask/"
