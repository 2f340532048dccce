package auth

// ResourceType is the kind of resource that an operation acts on, in the terms of an account SAS (signed resource
// types).
type ResourceType byte

// The resource types of an account SAS.
const (
	OnService   ResourceType = 's'
	OnContainer ResourceType = 'c' // containers, queues, tables
	OnObject    ResourceType = 'o' // blobs, messages, entities
)

// Public says to whom an operation is open without a credential.
type Public uint8

// Anonymous access, by the container's public access level.
const (
	NotPublic       Public = iota
	PublicBlob             // where the level is blob or container
	PublicContainer        // where the level is container
	Everyone               // CORS preflight requests
)

// Action is what a bearer token's roles must permit.
type Action uint8

// The actions. The zero value asks the roles for the letters that a SAS would need, which is right for nearly all
// operations: each role stands for a set of letters (see roles.go).
const (
	ByLetters Action = iota
	// DelegationKey is Get User Delegation Key: any data role over the whole account, and no other credential than a
	// bearer token.
	DelegationKey
	// AccessPolicy is reading and writing stored access policies and the public access level: owners only.
	AccessPolicy
	// Parts is a batch, whose parts are checked by themselves: any data role that reaches into the account.
	Parts
	// NoRole is covered by no data role: service properties and statistics belong to the account's management.
	NoRole
)

// Need is what a caller must hold to call an operation: a column of the operations tables. An account key holds
// everything.
// https://learn.microsoft.com/rest/api/storageservices/create-account-sas#account-sas-permissions-by-operation
// https://learn.microsoft.com/rest/api/storageservices/create-service-sas#permissions-for-a-directory-container-or-blob
type Need struct {
	// On is the account SAS resource type.
	On ResourceType
	// Any lists SAS permission letters of which one suffices; All those that are needed together. Where both are ""
	// no SAS may call the operation.
	Any, All string
	// AccountSASOnly refuses service SAS, as for operations on the service and for creating containers.
	AccountSASOnly bool
	// Bearer is what the roles of a bearer token must permit.
	Bearer Action
	// Public opens the operation to anonymous callers.
	Public Public
	// Directory permits the operation to a SAS for a directory (sr=d), although it acts on the container: the token's resource is
	// then the directory that the request is limited to.
	Directory bool
	// Record is set if the operation acts on the snapshot or version that the URL names. Other operations act on the base
	// blob: a SAS for a snapshot or a version (sr=bs, sr=bv) does not permit them.
	Record bool
}
