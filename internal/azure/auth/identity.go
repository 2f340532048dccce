package auth

import (
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// Mechanism describes how a caller was authenticated.
type Mechanism uint8

// The mechanisms, named as in the Storage Analytics log.
const (
	Anonymous Mechanism = iota
	SharedKey
	SAS
	Bearer
)

// String returns the mechanism's authentication-type in the Storage Analytics log.
func (m Mechanism) String() string {
	return [...]string{"anonymous", "authenticated", "sas", "bearer"}[m]
}

// Identity identifies the sender of a request. The zero value is an anonymous caller.
type Identity struct {
	Mechanism Mechanism
	// Permissions are the SAS permission letters held, for [SAS].
	Permissions string

	token *Token
	// resource is what a service SAS was signed for, base what the resources of all containers begin with.
	resource, base string
	// principal owns the bearer token, or the user delegation key of a SAS; rights are what its
	// roles permit on the resource that the request names.
	principal *Principal
	rights    rights
	scope     func(resource string) rights
}

// Token is the caller's shared access signature, nil for other mechanisms.
func (id Identity) Token() *Token { return id.token }

// Principal returns the owner of a bearer token or user delegation SAS; nil for other credentials.
func (id Identity) Principal() *Principal { return id.principal }

// Authorized and Unauthorized are the object IDs in a user delegation SAS: of the user whom the owner of the key has
// authorized, and of one whom access control lists limit; "" for none.
// https://learn.microsoft.com/rest/api/storageservices/create-user-delegation-sas#specify-a-signed-object-id-for-a-security-principal-preview
func (id Identity) Authorized() string {
	if id.token == nil || id.token.Delegation == nil {
		return ""
	}
	return strings.ToLower(id.token.Delegation.Authorized)
}

// Unauthorized: see [Identity.Authorized].
func (id Identity) Unauthorized() string {
	if id.token == nil || id.token.Delegation == nil {
		return ""
	}
	return strings.ToLower(id.token.Delegation.Unauthorized)
}

// Covers reports whether the caller's credential is for another blob of the same account as well: a service SAS is for
// what it was signed for alone, a blob, a directory with everything below it, or a container. A blob of a directory is
// the directory, and not what is below it. Whether the letters suffice is another question.
// https://learn.microsoft.com/rest/api/storageservices/create-service-sas#specify-the-signed-resource-field
func (id Identity) Covers(container, blob string) bool {
	t := id.token
	if t == nil || t.AccountSAS() {
		return true
	}
	at := id.base + container
	switch t.Resource {
	case "c":
		return id.resource == at
	case "b":
		return blob != "" && id.resource == at+"/"+blob
	case "d":
		directory, ok := t.directory(blob, false)
		return ok && id.resource == at+directory
	}
	return false // a snapshot or a version is nothing else
}

// At returns the identity with its rights on another resource of the same account and service than the one that the
// request's path names: the table of an operation in a batch, or the container of a blob in a batch. A role may be
// assigned for one resource only. Other credentials are unchanged.
func (id Identity) At(resource string) Identity {
	if id.scope != nil {
		id.rights = id.scope(resource)
	}
	return id
}

// Policy is a stored access policy: limits of a service SAS that are stored with the resource instead of in the token.
// The token supplies empty fields.
// https://learn.microsoft.com/rest/api/storageservices/define-stored-access-policy
type Policy struct{ Start, Expiry, Permissions string }

// PolicyID returns the stored access policy that the caller's token names, or "".
func (id Identity) PolicyID() string {
	if id.token == nil {
		return ""
	}
	return id.token.Policy
}

// Apply completes an identity whose token names a stored access policy. A field may be set in the token or in the
// policy, not in both; together they must have an expiry and permissions. found is false if the resource has no such
// policy; a token whose policy was deleted is invalid.
func (id Identity) Apply(p Policy, found bool, now time.Time) (Identity, error) {
	if !found {
		return Identity{}, failed("The signed identifier is not a stored access policy of the resource.")
	}
	t := id.token
	if p.Start != "" && t.Start != "" || p.Expiry != "" && t.Expiry != "" || p.Permissions != "" && t.Permissions != "" {
		return Identity{}, failed("A field is given both in the signature and in its stored access policy.")
	}
	id.Permissions = t.Permissions + p.Permissions
	return id, checkWindow(t.Start+p.Start, t.Expiry+p.Expiry, now)
}

// Check reports whether the credential permits an operation with this need. It
// returns nil or the error to send. The Blob service decides about anonymous access to public containers, since it
// knows the container's access level: Check allows anonymous callers if any level would allow the operation.
func (id Identity) Check(svc wire.Service, n Need) error {
	switch id.Mechanism {
	case SharedKey, SAS:
		if n.Bearer == DelegationKey {
			return errOnlyBearer
		}
		if id.Mechanism == SharedKey {
			return nil
		}
		return id.checkToken(svc, n)
	case Bearer:
		return id.Holds(n)
	}
	if n.Public == NotPublic {
		return ErrAuthorizationFailure
	}
	return nil
}

func (id Identity) checkToken(svc wire.Service, n Need) error {
	t := id.token
	if t.AccountSAS() {
		if strings.IndexByte(t.Services, svc.String()[0]) < 0 {
			return ErrAuthorizationServiceMismatch
		}
		if n.Any == "" && n.All == "" {
			return ErrAuthorizationFailure
		}
		// The requests of a batch are checked themselves, so any resource type may carry them. Azure documents none; Azurite
		// does the same, and a recorded batch of a container has srt=co.
		if n.Bearer != Parts && strings.IndexByte(t.ResourceTypes, byte(n.On)) < 0 {
			return ErrAuthorizationResourceTypeMismatch
		}
	} else if n.AccountSASOnly || n.Any == "" && n.All == "" {
		return ErrAuthorizationFailure
	} else if svc == wire.Blob && t.Resource != "c" && n.On != OnObject && !(t.Resource == "d" && n.Directory) {
		return ErrAuthorizationFailure // a token for a blob gives no rights on its container
	} else if svc == wire.Blob && (t.Resource == "bs" || t.Resource == "bv") && !n.Record {
		return ErrAuthorizationFailure
	}
	return id.Holds(n)
}

// Holds checks the permission letters of n: it returns nil, or
// [wire.ErrAuthorizationPermissionMismatch]. Account keys have all. A user delegation SAS needs them twice: in the
// token and in the roles of its signer.
func (id Identity) Holds(n Need) error {
	switch id.Mechanism {
	case SharedKey:
		return nil
	case SAS:
		if !lettersOf(id.Permissions).meets(n.Any, n.All) || id.principal != nil && !id.rights.permit(n) {
			return wire.ErrAuthorizationPermissionMismatch
		}
		return nil
	case Bearer:
		if n.Public != Everyone && !id.rights.permit(n) {
			return wire.ErrAuthorizationPermissionMismatch
		}
		return nil
	}
	return wire.ErrAuthorizationPermissionMismatch
}

// Table returns the only table that a service SAS permits, in lower case. limited is false for other credentials. The
// operations of a batch must be checked against it: the batch's own path names no table.
func (id Identity) Table() (name string, limited bool) {
	if id.token == nil || id.token.TableName == "" {
		return "", false
	}
	return strings.ToLower(id.token.TableName), true
}

// EntityRange is the range of entity keys to which a table's token is limited. The Has fields report which bounds are
// set; bounds are inclusive.
// https://learn.microsoft.com/rest/api/storageservices/create-service-sas#restrict-access-to-table-entities
type EntityRange struct {
	StartPK, StartRK, EndPK, EndRK             string
	HasStartPK, HasStartRK, HasEndPK, HasEndRK bool
}

// EntityRange returns the range to which the caller is limited; limited is false if it has no bounds.
func (id Identity) EntityRange() (e EntityRange, limited bool) {
	t := id.token
	if t == nil {
		return e, false
	}
	e = EntityRange{t.StartPK, t.StartRK, t.EndPK, t.EndRK, t.hasStartPK, t.hasStartRK, t.hasEndPK, t.hasEndRK}
	return e, e.HasStartPK || e.HasStartRK || e.HasEndPK || e.HasEndRK
}
