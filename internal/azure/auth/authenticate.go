package auth

import (
	"net/netip"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// Authenticator identifies the sender of a request. Its fields must be set before its first use; it is safe for
// concurrent use.
type Authenticator struct {
	// Accounts are the accounts that are served. Required.
	Accounts *Accounts
	// OAuth checks bearer tokens and user delegation SAS; nil refuses both.
	OAuth *OAuth
	// RequireHTTPS refuses requests over the network by plain HTTP. Requests from within the process are allowed.
	RequireHTTPS bool
	// ClientsNow is the clock for the dates that clients sign with an account key; nil means the server's clock. They
	// differ in tests that set the server's clock.
	ClientsNow func() time.Time
}

// Authenticate identifies the sender of r. A request without a credential is anonymous. The error for an invalid
// credential is [wire.ErrAuthenticationFailed] (or [ErrInvalidBearerToken]), for a malformed one
// [wire.ErrInvalidAuthenticationInfo]. [Identity.Check] decides what the caller may do.
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
		// a SAS that is bound to a user is sent together with that user's token
		if r.Query.Has("sig") && r.Query.Has("sduoid") {
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
