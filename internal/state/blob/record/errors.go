package record

import (
	"errors"
	"fmt"
)

// What the records of a name decide.
var (
	// ErrContainerNotFound: the container does not exist.
	ErrContainerNotFound = errors.New("blob state: container not found")
	// ErrBlobNotFound: no committed blob, snapshot or version has that name, or it has expired.
	ErrBlobNotFound = errors.New("blob state: blob not found")
	// ErrSoftDeleted: ErrBlobNotFound for a soft-deleted blob.
	ErrSoftDeleted = fmt.Errorf("%w: soft-deleted", ErrBlobNotFound)
	// ErrAccess: the access control lists do not permit the operation.
	ErrAccess = errors.New("blob state: the access control lists do not permit it")
	// ErrImmutable, ErrLegalHold: the blob is protected by a policy, or by a legal hold.
	ErrImmutable = errors.New("blob state: the blob is immutable")
	ErrLegalHold = errors.New("blob state: the blob has a legal hold")
)

// Stored data.
var (
	// ErrKey means that a stored key is not of its bucket's form.
	ErrKey = errors.New("blob state: malformed key")
	// ErrMalformed means that a stored record is not of its form.
	ErrMalformed = errors.New("blob state: malformed record")
)
