package auth

import (
	"net/netip"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// Authenticator finds out who sends a request. Its fields are set before its first use; it is safe for concurrent
// use.
type Authenticator struct {
	// Accounts are the accounts that are served. Required.
	Accounts *Accounts
	// OAuth checks bearer tokens and user delegation SAS; nil refuses both.
	OAuth *OAuth
	// RequireHTTPS refuses all requests that come over a network by plain HTTP. Requests from within the process pass.
	RequireHTTPS bool
	// ClientsNow is the clock by which clients date what they sign with an account key; nil is the server's own. They differ in tests
	// that set the server's clock.
	ClientsNow func() time.Time
}

// Authenticate finds out who sends r. A request without any credential is anonymous; a credential that does not hold
// is [wire.ErrAuthenticationFailed] (or [ErrInvalidBearerToken]), one that cannot be read
// [wire.ErrInvalidAuthenticationInfo]. What the caller may do is another question: [Identity.Check].
func (a *Authenticator) Authenticate(r *wire.Request) (Identity, error) {
	if a.RequireHTTPS && r.HTTP.TLS == nil && !inProcess(r.HTTP.RemoteAddr) {
		return Identity{}, ErrAccountRequiresHTTPS
	}
	header := r.Header("Authorization")
	if header == "" {
		if r.Query.Has("sig") {
			return a.sas(r)
		}
		if a.Accounts.Get(r.Account) == nil {
			return Identity{}, wire.ErrAuthenticationFailed
		}
		return Identity{}, nil
	}
	scheme, credential, ok := strings.Cut(header, " ")
	if !ok {
		return Identity{}, wire.ErrInvalidAuthenticationInfo
	}
	credential = strings.TrimSpace(credential)
	switch {
	case strings.EqualFold(scheme, "SharedKey"):
		return a.sharedKey(r, credential, false)
	case strings.EqualFold(scheme, "SharedKeyLite"):
		return a.sharedKey(r, credential, true)
	case strings.EqualFold(scheme, "Bearer"):
		if r.Query.Has("sig") && r.Query.Has("sduoid") { // a SAS that is bound to a user comes with that user's token
			return a.sas(r)
		}
		return a.bearer(r, credential)
	}
	return Identity{}, wire.ErrInvalidAuthenticationInfo
}

// inProcess reports whether a request comes from this process or over a socket of this machine's file system: net/http
// gives all others an IP address and a port.
func inProcess(remote string) bool {
	addr, err := netip.ParseAddrPort(remote)
	return err != nil || addr.Port() == 0
}
