package endpoint

import (
	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/frontend"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// Config completes the configuration of an endpoint by what both have in common: who may do what, the errors, and the
// XML answers to them. The caller sets Operations, Resolve and Common, and may replace Render and Before.
func Config[S any](s S, storage *Storage) frontend.Config[S, *Call] {
	return frontend.Config[S, *Call]{
		Service: wire.Blob,
		State:   s,
		Render:  wire.RenderXML,
		Admit:   func(_ S, c *Call, id auth.Identity, need auth.Need) error { return c.AdmitCaller(id, need) },
		Policy:  func(_ S, c *Call, id string) (auth.Policy, bool, error) { return c.StoredPolicy(id) },
		Before:  func(_ S, r *wire.Request) { storage.Before(r) },
		Errors:  AzureError,
		Lists:   func(_ S, c *Call, id auth.Identity, need auth.Need) bool { return c.LeftToLists(id, need) },
	}
}

// Both returns the handler, in an endpoint's table, of an operation that both endpoints have.
func Both[S any](do func(*Call) error) func(S, *Call) error {
	return func(_ S, c *Call) error { return do(c) }
}
