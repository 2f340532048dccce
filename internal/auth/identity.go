package auth

import (
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/internal/wire"
)

// Mechanism is how a caller was authenticated.
type Mechanism uint8

// The mechanisms, in the words of the Storage Analytics log.
const (
	Anonymous Mechanism = iota
	SharedKey
	SAS
)

// Identity is who sends a request. The zero value is an anonymous caller.
type Identity struct {
	Mechanism Mechanism
	// Permissions are the SAS permission letters held, for [SAS].
	Permissions string

	token *Token
}

// Token is the caller's shared access signature, nil for other mechanisms.
func (id Identity) Token() *Token { return id.token }

// Policy is a stored access policy: limits that a service SAS takes from the resource instead of carrying them.
// Empty fields are left to the token.
// https://learn.microsoft.com/rest/api/storageservices/define-stored-access-policy
type Policy struct{ Start, Expiry, Permissions string }

// PolicyID is the stored access policy that the caller's token names, "" for none.
func (id Identity) PolicyID() string {
	if id.token == nil {
		return ""
	}
	return id.token.Policy
}

// Apply completes an identity whose token names a stored access policy. A field may stand in the token or in the
// policy, not in both; together they must give an expiry and permissions. found is false if the resource has no such
// policy: revoked, the token is worth nothing from then on.
func (id Identity) Apply(p Policy, found bool, now time.Time) (Identity, error) {
	if !found {
		return Identity{}, sasFailed("The signed identifier is not a stored access policy of the resource.")
	}
	t := id.token
	if p.Start != "" && t.Start != "" || p.Expiry != "" && t.Expiry != "" || p.Permissions != "" && t.Permissions != "" {
		return Identity{}, sasFailed("A field is given both in the signature and in its stored access policy.")
	}
	id.Permissions = t.Permissions + p.Permissions
	return id, checkWindow(t.Start+p.Start, t.Expiry+p.Expiry, now)
}

// Check reports whether the identity may call an operation with this need, as far as the credential alone tells. It
// returns nil or the refusal. Anonymous access to public containers is decided by the Blob service, which knows the
// container's level: here an anonymous caller passes wherever there may be such a level.
func (id Identity) Check(svc wire.Service, n Need) error {
	switch id.Mechanism {
	case SharedKey:
		return nil
	case SAS:
		return id.checkToken(svc, n)
	}
	if n.Public == NotPublic {
		return ErrAuthorizationFailure
	}
	return nil
}

func (id Identity) checkToken(svc wire.Service, n Need) error {
	t := id.token
	if t.AccountSAS() {
		if !strings.Contains(t.Services, svc.String()[:1]) {
			return ErrAuthorizationServiceMismatch
		}
		if n.Any == "" && n.All == "" {
			return ErrAuthorizationFailure
		}
		if strings.IndexByte(t.ResourceTypes, byte(n.On)) < 0 {
			return ErrAuthorizationResourceTypeMismatch
		}
	} else if n.AccountSASOnly || n.Any == "" && n.All == "" {
		return ErrAuthorizationFailure
	} else if svc == wire.Blob && t.Resource != "c" && n.On != OnObject {
		return ErrAuthorizationFailure // a blob's token says nothing of its container
	}
	return id.Holds(n)
}

// Holds reports whether the identity has the permission letters that n asks for: nil, or
// [wire.ErrAuthorizationPermissionMismatch]. Account keys have all.
func (id Identity) Holds(n Need) error {
	if id.Mechanism == SharedKey {
		return nil
	}
	for i := range len(n.All) {
		if strings.IndexByte(id.Permissions, n.All[i]) < 0 {
			return wire.ErrAuthorizationPermissionMismatch
		}
	}
	if n.Any != "" && !strings.ContainsAny(id.Permissions, n.Any) {
		return wire.ErrAuthorizationPermissionMismatch
	}
	return nil
}

// EntityRange is the range of entity keys that a table's token is limited to. Has fields say which bounds there are;
// bounds are inclusive.
// https://learn.microsoft.com/rest/api/storageservices/create-service-sas#restrict-access-to-table-entities
type EntityRange struct {
	StartPK, StartRK, EndPK, EndRK             string
	HasStartPK, HasStartRK, HasEndPK, HasEndRK bool
}

// EntityRange returns the range that the caller is limited to; limited is false where there is no bound.
func (id Identity) EntityRange() (e EntityRange, limited bool) {
	t := id.token
	if t == nil {
		return e, false
	}
	e = EntityRange{t.StartPK, t.StartRK, t.EndPK, t.EndRK, t.hasStartPK, t.hasStartRK, t.hasEndPK, t.hasEndRK}
	return e, e.HasStartPK || e.HasStartRK || e.HasEndPK || e.HasEndRK
}
