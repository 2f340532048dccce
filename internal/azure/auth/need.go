package auth

// ResourceType is the kind of resource that an operation acts on, as in an account SAS (signed resource
// types).
type ResourceType byte

// The resource types of an account SAS.
const (
	OnService   ResourceType = 's'
	OnContainer ResourceType = 'c' // containers, queues, tables
	OnObject    ResourceType = 'o' // blobs, messages, entities
)

// Public determines whether an operation is allowed without a credential.
type Public uint8

// Anonymous access, by the container's public access level.
const (
	NotPublic       Public = iota
	PublicBlob             // where the level is blob or container
	PublicContainer        // where the level is container
	Everyone               // CORS preflight requests
)

// Action is the action that a bearer token's roles must permit.
type Action uint8

// The actions. The zero value requires the permission letters that a SAS would need, which is right for nearly all
// operations: each role permits a set of letters (see roles.go).
const (
	ByLetters Action = iota
	// DelegationKey is Get User Delegation Key: it needs any data role on the whole account, and a
	// bearer token.
	DelegationKey
	// AccessPolicy is reading and writing stored access policies and the public access level: it needs an owner role.
	AccessPolicy
	// Parts is a batch, whose parts are checked separately: it needs any data role in the account.
	Parts
	// Management is not permitted by any data role: service properties and statistics belong to the account's management,
	// for which the reference names Storage Account Contributor.
	Management
)

// Need is the permission that an operation requires: a column of the operations tables. An account key permits
// everything.
// https://learn.microsoft.com/rest/api/storageservices/create-account-sas#account-sas-permissions-by-operation
// https://learn.microsoft.com/rest/api/storageservices/create-service-sas#permissions-for-a-directory-container-or-blob
type Need struct {
	// On is the resource type for an account SAS.
	On ResourceType
	// Any lists SAS permission letters of which one suffices; All lists letters that are all needed. If both are "",
	// no SAS may call the operation.
	Any, All string
	// AccountSASOnly refuses service SAS, as for operations on the service and for creating containers.
	AccountSASOnly bool
	// Bearer is the action that the roles of a bearer token must permit.
	Bearer Action
	// Public allows anonymous callers.
	Public Public
	// Directory permits the operation to a SAS for a directory (sr=d), although it acts on the container: the token's
	// resource is then the directory that the request is limited to.
	Directory bool
	// Record is set if the operation acts on the snapshot or version that the URL names. Other operations act on the base
	// blob: a SAS for a snapshot or a version (sr=bs, sr=bv) does not permit them.
	Record bool
}
