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
	// Public opens the operation to anonymous callers.
	Public Public
}
