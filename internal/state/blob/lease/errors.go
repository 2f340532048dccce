package lease

import "errors"

// Lease operations.
var (
	// ErrPresent: the lease is held under another ID.
	ErrPresent = errors.New("blob state: lease already present")
	// ErrBreakingAcquire and ErrBreakingChange: not allowed while the lease is breaking.
	ErrBreakingAcquire = errors.New("blob state: a breaking lease cannot be acquired")
	ErrBreakingChange  = errors.New("blob state: a breaking lease cannot be changed")
	// ErrBroken: a broken lease cannot be renewed.
	ErrBroken = errors.New("blob state: a broken lease cannot be renewed")
	// ErrNoLease: the resource has no lease to change or break.
	ErrNoLease = errors.New("blob state: no lease")
	// ErrID: the ID is not the lease's.
	ErrID = errors.New("blob state: lease ID mismatch")
)

// Errors are the errors of an operation that is not a lease operation, on a resource with a lease.
type Errors struct{ Missing, Mismatch, Lost, NotPresent error }

// The leases of blobs.
var (
	// ErrBlobMissing: a write without the ID of the lease.
	ErrBlobMissing = errors.New("blob state: the blob is leased")
	// ErrBlobMismatch: the ID is not the lease's.
	ErrBlobMismatch = errors.New("blob state: the lease ID is not the blob's")
	// ErrBlobLost: the lease has expired or was broken.
	ErrBlobLost = errors.New("blob state: the blob's lease is lost")
	// ErrBlobNoLease: the request has a lease ID, and the blob has no lease.
	ErrBlobNoLease = errors.New("blob state: the blob has no lease")

	// OfBlob are the errors for the lease of a blob.
	OfBlob = Errors{ErrBlobMissing, ErrBlobMismatch, ErrBlobLost, ErrBlobNoLease}
)

// Leases of containers; as for blobs.
var (
	ErrContainerMissing  = errors.New("blob state: the container is leased")
	ErrContainerMismatch = errors.New("blob state: the lease ID is not the container's")
	ErrContainerLost     = errors.New("blob state: the container's lease is lost")
	ErrContainerNoLease  = errors.New("blob state: the container has no lease")

	// OfContainer are those for the lease of a container.
	OfContainer = Errors{ErrContainerMissing, ErrContainerMismatch, ErrContainerLost, ErrContainerNoLease}
)
